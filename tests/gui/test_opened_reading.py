"""The chat that is shown is read ahead: quietly, seen when it takes a while, and stopped by whatever comes."""

from app.desktop.session.opened_reading import OpenedReading
from engine import Abort, ErrorInfo, Failed, Prepare, PrepareCancelled
from tests.gui.scripted_engine import Desk
from tests.gui.test_documents import line, progress


def opened(desk: Desk) -> Prepare:
    """Let the shown chat be shown for a while, and return what the engine is asked."""
    [reading] = desk.parts.bridge.findChildren(OpenedReading)
    reading.begin()
    return desk.client.last(Prepare)


def test_line_tells_of_the_reading_only_while_it_takes_long(desk: Desk) -> None:
    desk.reply("one", "answer")
    order = opened(desk)
    assert (order.name, order.chat_id) == ("", desk.parts.conversation.chat.id)
    row = desk.composer.pasted.reading
    assert row.isHidden()
    progress(desk, order, 10, 100)
    desk.parts.bridge._drain()
    assert row.isHidden()
    progress(desk, order, 500, 2000)
    desk.parts.bridge._drain()
    assert (row.isHidden(), line(desk)) == (False, "Reading ahead: 500 of 2,000 tokens")
    desk.client.emit(PrepareCancelled(request_id=order.request_id))
    desk.parts.bridge._drain()
    assert row.isHidden()


def test_reading_is_given_up_when_another_chat_is_shown(desk: Desk) -> None:
    desk.reply("one", "answer")
    order = opened(desk)
    desk.parts.chats.new_chat()
    assert desk.client.last(Abort).request_id == order.request_id


def test_nothing_is_said_when_the_chat_cannot_be_read(desk: Desk) -> None:
    desk.reply("one", "answer")
    order = opened(desk)
    desk.client.emit(
        Failed(request_id=order.request_id, error=ErrorInfo(error="ContextOverflow", message="m", hint="h"))
    )
    desk.parts.bridge._drain()
    assert desk.composer.pasted.reading.isHidden()


def test_chat_is_not_read_when_its_reply_is_missing(desk: Desk) -> None:
    [reading] = desk.parts.bridge.findChildren(OpenedReading)
    reading.begin()
    desk.say("one")
    reading.begin()
    assert desk.client.count(Prepare) == 0
