"""Fireside, the application: joins engine and models in a window and a terminal."""

__version__ = "0.1.0"
