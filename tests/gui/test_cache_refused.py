"""A disk that takes nothing of what the engine has read: the window says so, once."""

from collections.abc import Callable

from engine import CacheRefused, ErrorInfo
from tests.gui.scripted_engine import Desk

ERROR = ErrorInfo("CacheNotWritten", "Nothing could be kept.", "Free some space.")


def shown(desk: Desk) -> list[tuple[str, str]]:
    desk.client.emit(CacheRefused(error=ERROR))
    desk.parts.bridge._drain()
    return [(notice.text, notice.hint) for notice in desk.parts.window.notices.notices if notice.text == ERROR.message]


def test_notice_is_shown_once_when_nothing_can_be_kept(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    assert shown(desk) == [(ERROR.message, ERROR.hint)]
    desk.parts.window.notices.dismiss("cache-refused")
    assert shown(desk) == [], "an engine that is started anew says it again"
