"""The terminal: one file a command. Needs no Qt and no display."""
