"""The library of this user: Fireside's own models, the folders the user added, and what other programs keep."""

from app.paths import Paths
from models import Library, find_roots


def open_library(paths: Paths) -> Library:
    """Return the library; nothing is looked at before it is asked."""
    return Library(models_dir=paths.models_dir, state_dir=paths.data_dir, roots=find_roots(paths.models_dir))
