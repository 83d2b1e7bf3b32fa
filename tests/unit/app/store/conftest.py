"""A store on a file of its own, closed at the end, whose troubles fail the test unless it looks at them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.errors import StoreError
from app.store import ChatStore

OpenStore = Callable[..., ChatStore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the chats of this test lie; nothing is there yet."""
    return tmp_path / "data" / "chats.sqlite3"


@pytest.fixture
def troubles() -> list[StoreError]:
    """Return what the stores of this test had trouble with; emptied by a test that provokes some."""
    return []


@pytest.fixture
def open_store(path: Path, troubles: list[StoreError]) -> Iterator[OpenStore]:
    """Return a function that opens a store at `path`; its notices are its attribute `notices`."""
    stores: list[ChatStore] = []

    def open_one(**options: object) -> ChatStore:
        store, notices = ChatStore.open(path, on_trouble=troubles.append, **options)  # type: ignore[arg-type]
        store.notices = notices  # type: ignore[attr-defined]
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        store.close(timeout_s=1.0)
    assert troubles == []


@pytest.fixture
def store(open_store: OpenStore) -> ChatStore:
    """Return a new, empty store."""
    return open_store()
