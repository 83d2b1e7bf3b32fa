"""What the window shows; each widget gets its inputs by constructor and tells its outputs as signals."""
