"""Chats that are longer than the context: what is left out, what stays, and that the cut stays where it is."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ContextOverflow, overflow_error
from engine.messages import ChatMessage, Overflow, PromptMode, PromptOptions, Role, ToolCall
from engine.overflow import Fitted, fit_chat
from engine.tokenizing import EncodedPrompt

N_CTX = 400
DROP = PromptOptions(overflow=Overflow.DROP_OLDEST)
CONTINUE = PromptOptions(overflow=Overflow.DROP_OLDEST, mode=PromptMode.CONTINUE)


class Encoder:
    """Makes a token of every four bytes, five for the frame of a message; refuses what is far too long unread."""

    def __init__(self) -> None:
        self.asked: list[tuple[ChatMessage, ...]] = []

    def __call__(self, messages: Sequence[ChatMessage], options: PromptOptions) -> EncodedPrompt:
        self.asked.append(tuple(messages))
        num_tokens = sum(5 + len((message.thinking + message.content).encode()) // 4 for message in messages)
        if num_tokens > 20 * N_CTX:
            raise overflow_error(num_tokens, N_CTX, is_estimate=True)
        reply = messages[-1].content if options.mode is PromptMode.CONTINUE else ""
        return EncodedPrompt([0] * num_tokens, reply=reply)


def chat(num_turns: int, *, size: int = 100, system: bool = True) -> list[ChatMessage]:
    messages = [ChatMessage(Role.SYSTEM, "Be brief.")] if system else []
    for number in range(num_turns):
        messages.append(ChatMessage(Role.USER, f"{number} ".ljust(size, "q")))
        messages.append(ChatMessage(Role.ASSISTANT, f"{number} ".ljust(size, "a")))
    return [*messages, ChatMessage(Role.USER, "and now?")]


def fit(messages: Sequence[ChatMessage], options: PromptOptions = DROP) -> tuple[Fitted, tuple[ChatMessage, ...]]:
    encoder = Encoder()
    fitted = fit_chat(encoder, messages, options, n_ctx=N_CTX)
    kept = next(asked for asked in reversed(encoder.asked) if encoder(asked, options).tokens == fitted.encoded.tokens)
    return fitted, kept


def test_nothing_is_left_out_when_a_chat_fits():
    encoder = Encoder()
    fitted = fit_chat(encoder, chat(3), DROP, n_ctx=N_CTX)
    assert (fitted.num_messages, fitted.num_tokens, fitted.is_reply_cut) == (0, 0, False)
    assert encoder.asked == [tuple(chat(3))], "it was encoded once"


def test_long_chat_is_refused_when_nothing_may_be_left_out():
    fitted = fit_chat(Encoder(), chat(30), PromptOptions(), n_ctx=N_CTX)
    assert len(fitted.encoded.tokens) > N_CTX, "the engine refuses it with the exact count"
    with pytest.raises(ContextOverflow):
        fit_chat(Encoder(), chat(1, size=100_000), PromptOptions(), n_ctx=N_CTX)


def test_oldest_turns_go_and_the_system_prompt_and_the_question_stay_when_a_chat_is_long():
    fitted, kept = fit(chat(30))
    assert kept[0].role is Role.SYSTEM
    assert kept[1].role is Role.USER, "no turn is torn"
    assert kept[-1].content == "and now?"
    assert list(kept[1:]) == chat(30)[-len(kept) + 1 :]
    assert fitted.num_messages == len(chat(30)) - len(kept)
    assert fitted.num_messages * 25 * 0.7 < fitted.num_tokens < fitted.num_messages * 30 * 1.3
    assert len(fitted.encoded.tokens) <= N_CTX - N_CTX // 8


def test_cut_stays_where_it_is_for_several_turns_when_a_chat_grows():
    firsts = [fit(chat(number))[1][1].content.split()[0] for number in range(6, 40)]
    changes = sum(one != other for one, other in itertools.pairwise(firsts))
    assert firsts == sorted(firsts, key=int)
    assert 5 < changes < len(firsts) * 0.6


def test_few_prompts_are_tried_when_a_chat_is_very_long():
    encoder = Encoder()
    fit_chat(encoder, chat(2000), DROP, n_ctx=N_CTX)
    assert len(encoder.asked) < 15


def test_question_alone_is_refused_with_its_count_when_it_is_too_long():
    too_long = ChatMessage(Role.USER, "x" * 4 * N_CTX)
    with pytest.raises(ContextOverflow, match=f"{N_CTX:,}"):
        fit_chat(Encoder(), [*chat(3)[:-1], too_long], DROP, n_ctx=N_CTX)


def test_question_alone_is_taken_when_it_just_fits():
    message = ChatMessage(Role.USER, "x" * (4 * N_CTX - 40))
    assert fit_chat(Encoder(), [message], DROP, n_ctx=N_CTX).num_messages == 0


def test_older_turns_go_first_when_a_reply_is_continued():
    messages = [*chat(20), ChatMessage(Role.ASSISTANT, "half a reply")]
    fitted, kept = fit(messages, CONTINUE)
    assert not fitted.is_reply_cut
    assert kept[-1].content == "half a reply"
    assert fitted.num_messages > 0


def test_end_of_a_reply_stays_when_it_fills_the_context_by_itself():
    words = " ".join(f"word{number}" for number in range(600))
    messages = [*chat(2), ChatMessage(Role.ASSISTANT, words)]
    fitted, kept = fit(messages, CONTINUE)
    assert fitted.is_reply_cut
    assert [m.role for m in kept] == [Role.SYSTEM, Role.USER, Role.ASSISTANT]
    assert words.endswith(kept[-1].content)
    assert kept[-1].content.startswith(" word"), "no word is torn"
    assert fitted.encoded.reply == words, "the reply itself is whole"
    assert N_CTX // 4 < len(fitted.encoded.tokens) <= N_CTX - N_CTX // 8


def test_end_of_the_thinking_stays_when_it_fills_the_context_by_itself():
    words = " ".join(f"word{number}" for number in range(600))
    fitted, kept = fit([*chat(2), ChatMessage(Role.ASSISTANT, "", thinking=words)], CONTINUE)
    assert fitted.is_reply_cut
    assert [m.role for m in kept] == [Role.SYSTEM, Role.USER, Role.ASSISTANT]
    assert words.endswith(kept[-1].thinking) and kept[-1].thinking
    assert N_CTX // 4 < len(fitted.encoded.tokens) <= N_CTX - N_CTX // 8


@pytest.mark.parametrize("character", ["語", "😀"])
def test_reply_can_go_on_when_each_of_its_bytes_is_a_token(character: str):
    def encode(messages: Sequence[ChatMessage], options: PromptOptions) -> EncodedPrompt:
        return EncodedPrompt([0] * sum(5 + len(message.content.encode()) for message in messages))

    reply = character * (N_CTX // len(character.encode()))
    messages = [ChatMessage(Role.USER, "so"), ChatMessage(Role.ASSISTANT, reply)]
    fitted = fit_chat(encode, messages, CONTINUE, n_ctx=N_CTX)
    assert fitted.is_reply_cut
    assert N_CTX // 4 < len(fitted.encoded.tokens) <= N_CTX - N_CTX // 8


def test_thinking_goes_before_the_answer_when_a_reply_is_too_long():
    words = " ".join(f"word{number}" for number in range(600))
    fitted, kept = fit([*chat(2), ChatMessage(Role.ASSISTANT, "half an answer", thinking=words)], CONTINUE)
    assert fitted.is_reply_cut
    assert (kept[-1].thinking, kept[-1].content) == ("", "half an answer")
    assert 0.7 * len(words) < 4 * fitted.num_tokens
    fitted, kept = fit([*chat(2), ChatMessage(Role.ASSISTANT, words, thinking=words)], CONTINUE)
    assert kept[-1].thinking == "" and words.endswith(kept[-1].content) and kept[-1].content
    assert fitted.encoded.reply == words


def test_no_answer_of_a_tool_is_parted_from_its_call_when_a_chat_is_long():
    messages = []
    for number in range(30):
        call = ToolCall(name="look", arguments='{"at": 1}', call_id=str(number))
        messages += [
            ChatMessage(Role.USER, f"{number} ".ljust(60, "q")),
            ChatMessage(Role.ASSISTANT, "", tool_calls=(call,)),
            ChatMessage(Role.TOOL, "r" * (number * 37 % 200), call_id=str(number)),
            ChatMessage(Role.ASSISTANT, "a" * 50),
        ]
    for number in range(10, len(messages)):
        _, kept = fit([*messages[:number], ChatMessage(Role.USER, "so")])
        calls = [call.call_id for message in kept for call in message.tool_calls]
        answers = [message.call_id for message in kept if message.role is Role.TOOL]
        assert calls[: len(answers)] == answers
        assert kept[0].role is Role.USER


@given(
    sizes=st.lists(st.integers(0, 1500), min_size=1, max_size=12),
    half=st.none() | st.text("ab ", max_size=4000),
    system=st.booleans(),
)
def test_prompt_fits_or_is_refused_when_chats_are_random(sizes: list[int], half: str | None, system: bool):
    messages = [ChatMessage(Role.SYSTEM, "Be brief.")] if system else []
    for number, size in enumerate(sizes):
        messages.append(ChatMessage((Role.USER, Role.ASSISTANT)[number % 2], "x" * size))
    if messages[-1].role is Role.ASSISTANT:
        messages.append(ChatMessage(Role.USER, "so"))
    if half is not None:
        messages.append(ChatMessage(Role.ASSISTANT, half))
    options = DROP if half is None else CONTINUE
    try:
        fitted = fit_chat(Encoder(), messages, options, n_ctx=N_CTX)
    except ContextOverflow:
        last = max(i for i, message in enumerate(messages) if message.role is Role.USER)
        assert len(messages[last].content) // 4 + 30 > N_CTX - N_CTX // 8 - N_CTX // 4
    else:
        assert len(fitted.encoded.tokens) <= N_CTX
