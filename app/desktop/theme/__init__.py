"""Colours, sizes, fonts and glyphs, and how they reach the widgets."""
