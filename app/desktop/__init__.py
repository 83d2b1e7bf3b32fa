"""The Qt window; the only part of the application that imports PySide6."""
