"""Where the engine's threads and the window's thread meet."""
