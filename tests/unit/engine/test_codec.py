"""Messages to bytes and back; bytes can only become a message or one kind of refusal."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import messages
from engine.messages import (
    ChatMessage,
    Delta,
    Generate,
    MessageError,
    Role,
    Shutdown,
    decode_command,
    decode_event,
    encode,
)
from engine.params import SamplingParams
from tests.unit.engine.fuzz import check_fuzz, damaged
from tests.unit.engine.message_values import COMMANDS, EVENTS, structs

MESSAGES = [pytest.param(message_type, id=message_type.__name__) for message_type in (*COMMANDS, *EVENTS)]


def _decode(message: Any):
    return (decode_command if type(message) in COMMANDS else decode_event)(encode(message))


@pytest.mark.parametrize("message_type", MESSAGES)
@settings(max_examples=25)
@given(data=st.data())
def test_message_comes_back_equal_when_it_crosses_the_border(message_type: type[msgspec.Struct], data: st.DataObject):
    message = data.draw(structs(message_type))
    back = _decode(message)
    assert type(back) is message_type
    assert back == message


@pytest.mark.parametrize("message_type", MESSAGES)
@settings(max_examples=3)
@given(data=st.data())
def test_message_is_refused_when_it_comes_from_the_wrong_side(message_type: type[msgspec.Struct], data: st.DataObject):
    message = data.draw(structs(message_type))
    wrong = decode_event if message_type in COMMANDS else decode_command
    with pytest.raises(MessageError):
        wrong(encode(message))


@pytest.mark.parametrize("message_type", MESSAGES)
def test_message_is_public_when_it_is_in_the_protocol(message_type: type[msgspec.Struct]):
    assert message_type.__name__ in messages.__all__


@pytest.mark.parametrize(
    "value",
    [
        {"type": "Unknown", "request_id": "r"},
        {"type": "Delta"},
        {"request_id": "r"},
        {"type": "Shutdown", "type ": "x"} | {"type": 5},
        [],
        None,
        "Shutdown",
        {"type": "Generate", "request_id": 5, "messages": []},
        {"type": "Generate", "request_id": "r", "messages": [{"role": "wizard", "content": ""}]},
        {"type": "Generate", "request_id": "r", "messages": [], "sampling": {"temperature": -1.0}},
        {"type": "Generate", "request_id": "r", "messages": [], "sampling": {"top_k": True}},
        {"type": "Generate", "request_id": "r", "messages": [], "sampling": {"temperature": float("nan")}},
        {"type": "LoadModel", "request_id": "r", "path": "p", "params": {"n_ctx": -5}},
        {"type": "LoadModel", "request_id": "r", "path": "p", "params": {"type_k": "q9"}},
        {"type": "LoadModel", "request_id": "r", "path": b"p"},
    ],
    ids=[
        "unknown tag", "missing fields", "no tag", "odd tag", "list", "nothing", "text", "wrong type", "unknown role",
        "out of range", "bool as number", "not a number", "negative context", "unknown cache type", "bytes as text",
    ],
)  # fmt: skip
def test_well_formed_data_is_refused_when_it_is_no_message(value: object):
    data = msgspec.msgpack.encode(value)
    for decode in (decode_command, decode_event):
        with pytest.raises(MessageError):
            decode(data)


@settings(max_examples=300)
@given(data=st.binary(max_size=60))
def test_nothing_but_a_refusal_comes_when_bytes_are_random(data: bytes):
    check_fuzz(decode_command, data)
    check_fuzz(decode_event, data)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_but_a_refusal_comes_when_messages_are_damaged(seed: int):
    generator = random.Random(seed)
    good = encode(
        Generate(
            request_id="r1",
            messages=(ChatMessage(Role.USER, "hello"), ChatMessage(Role.ASSISTANT, "日本")),
            sampling=SamplingParams(stop=("a", "b"), seed=1),
        )
    )
    for _ in range(400):
        data = damaged(generator, good)
        check_fuzz(decode_command, data)
        check_fuzz(decode_event, data)


@pytest.mark.parametrize("depth", [100, 10_000, 200_000])
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a"], ids=["lists", "maps"])
def test_nothing_but_a_refusal_comes_when_data_is_nested_deeply(opening: bytes, depth: int):
    for decode in (decode_command, decode_event):
        with pytest.raises(MessageError):
            decode(opening * depth)


def test_nothing_but_a_refusal_comes_when_a_length_is_a_lie():
    for data in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xffabc", b"\xc6\xff\xff\xff\xff"):
        with pytest.raises(MessageError):
            decode_command(data)


@pytest.mark.parametrize(
    ("content", "expected"),
    [("a\ud83d b", "a\ufffd b"), ("\ud83d\ude00", "😀"), ("a\x00b", "a\x00b"), ("\ufeffa\u2028", "\ufeffa\u2028")],
    ids=["unpaired", "pair in halves", "NUL", "marks"],
)
def test_message_text_is_cleaned_before_it_is_sent_when_it_holds_surrogates(content: str, expected: str):
    message = Generate(request_id="r", messages=(ChatMessage(Role.USER, content),))
    assert message.messages[0].content == expected
    assert _decode(message).messages[0].content == expected


def test_messages_cannot_be_changed_when_made():
    for message in (
        Shutdown(),
        Delta(request_id="r", text="", num_generated_tokens=0, num_context_tokens=0, decode_s=0),
    ):
        with pytest.raises(AttributeError):
            message.request_id = "other"
