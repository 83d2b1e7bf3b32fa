"""Standard streams that are closed, missing or no streams, and text in other encodings."""

import io
import os
import signal
import sys

import pytest

from app.cli.streams import ended_in_order, is_terminal, open_standard_streams, read_standard_input, without_echo
from app.text_decoding import decode_text


@pytest.mark.parametrize("stream", [None, "a string"])
def test_missing_streams_are_replaced(monkeypatch: pytest.MonkeyPatch, stream: object) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, stream)
    open_standard_streams()
    assert sys.stdout.fileno() == 1
    assert sys.stderr.fileno() == 2
    assert sys.stdin.fileno() == 0
    sys.stdout.write("")


def test_streams_that_are_there_stay(capsys: pytest.CaptureFixture[str]) -> None:
    before = (sys.stdin, sys.stdout, sys.stderr)
    open_standard_streams()
    assert (sys.stdin, sys.stdout, sys.stderr) == before


@pytest.mark.skipif(os.name != "posix", reason="terminals are another thing on Windows")
def test_terminal_shows_nothing_typed_while_a_reply_runs_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import pty

    ours, theirs = pty.openpty()
    with os.fdopen(ours, "r+b", buffering=0) as keyboard, os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with pytest.raises(KeyboardInterrupt), without_echo():
            keyboard.write(b"early\n")
            assert terminal.readline() == "early\n"
            raise KeyboardInterrupt
        keyboard.write(b"late\n")
        assert terminal.readline() == "late\n"
        assert keyboard.read(100) == b"late\r\n"  # what was shown


def test_no_terminal_is_no_trouble_without_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("text"))
    with without_echo():
        assert sys.stdin.read() == "text"


def test_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert not is_terminal(stream)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_in_a_marked_encoding_is_read(encoding: str) -> None:
    assert decode_text("é日👍\n".encode(encoding)) == ("é日👍\n", None)


def test_text_in_an_old_encoding_is_read_with_a_notice() -> None:
    text, notice = decode_text("é€".encode("cp1252"))
    assert text == "é€"
    assert notice is not None


def test_standard_input_is_utf_8_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO("日é".encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw, encoding="latin-1"))
    assert read_standard_input() == ("日é", None)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")
def test_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_in_order():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            with pytest.raises(SystemExit) as ended:
                signal.raise_signal(signal.SIGTERM)
            assert ended.value.code == 143
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # a second one ends it at once
    finally:
        signal.signal(signal.SIGHUP, before)
