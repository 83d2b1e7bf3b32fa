"""Untrusted Markdown to safe documents, and the widgets that hold them."""
