"""Tells what a model thinks from what it answers: how a family marks thinking, and a splitter for its stream of text.

Line breaks and blanks next to a tag belong to it: they are in neither part. Nothing else is ever lost.
"""

import re
from typing import NamedTuple

from engine.code_context import CodeContext
from engine.messages import TextSpan

_JOINED_STRINGS = re.compile(r"""(['"])\s*[~+]\s*\1""")
_QUOTES = " \t\"'(`"


class ThinkingFormat(NamedTuple):
    """How a family of models marks what it thinks.

    Attributes:
        markers: what frames the answer in families that frame it too; not part of any text.
        before: line breaks that the family puts in front of the closing tag.
        after: those after it, and what begins the answer where answers are framed.
        answering: what begins the answer of a reply that does not think, where answers are framed.
    """

    opening: str
    closing: str
    markers: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    answering: str = ""

    @property
    def closing_text(self) -> str:
        """What a model writes to end its thinking."""
        return self.before + self.closing + self.after

    @property
    def all_texts(self) -> tuple[str, ...]:
        """Every text that has to be seen to split a reply."""
        return (self.opening, self.closing, self.after, self.answering, *self.markers)


class ThinkingStart(NamedTuple):
    """How thinking stands where a reply begins.

    Attributes:
        is_open: whether the prompt ends inside a block.
        closing_tokens: tokens that end a block.
        shown_ids: control tokens that the splitter has to see as text.
    """

    format: ThinkingFormat
    is_open: bool = False
    closing_tokens: tuple[int, ...] = ()
    shown_ids: frozenset[int] = frozenset()


class BegunReply(NamedTuple):
    """The half reply that a prompt ends with.

    Attributes:
        pieces: (text, whether it is a marker of the model and not what was written).
        is_thinking: whether the model is still thinking.
    """

    pieces: list[tuple[str, bool]]
    is_thinking: bool = False


def begin_reply(
    thinking: ThinkingFormat | None, prompt: str, thought: str, answer: str, *, is_open: bool
) -> BegunReply:
    """Return what follows a prompt so that the model goes on with a half reply.

    Args:
        prompt: up to where the reply begins.
        thought: what was thought before the answer; left out where the prompt has closed the block.
        is_open: whether the prompt ends inside a block.
    """
    if thinking is None:
        return BegunReply([(answer, False)])
    pieces: list[tuple[str, bool]] = []
    is_closed = not is_open and prompt.rstrip().endswith((thinking.closing, thinking.closing_text.strip()))
    thought = "" if is_closed else thought.strip("\n")
    if thought and not is_open:
        pieces.append((thinking.opening + ("\n" if thinking.before else ""), True))
    elif thought and thinking.before and not prompt.endswith("\n"):
        pieces.append(("\n", True))
    if thought:
        pieces.append((thought, False))
    is_thinking = is_open or bool(thought)
    if is_thinking and answer:
        pieces.append((thinking.closing_text if thought else thinking.closing_text.lstrip("\n"), True))
    elif answer and thinking.answering and not prompt.endswith(thinking.answering):
        pieces.append((thinking.answering, True))
    pieces.append((answer, False))
    return BegunReply([piece for piece in pieces if piece[0]], is_thinking and not answer)


# What a template's source holds -> the format; the first that is found counts.
_FAMILIES: tuple[tuple[str, ThinkingFormat], ...] = (
    (
        "<|channel|>analysis<|message|>",
        ThinkingFormat(
            "<|channel|>analysis<|message|>",
            "<|end|>",
            ("<|start|>assistant", "<|channel|>final<|message|>", "<|channel|>commentary<|message|>", "<|return|>"),
            after="<|start|>assistant<|channel|>final<|message|>",
            answering="<|channel|>final<|message|>",
        ),
    ),
    ("<|channel>thought", ThinkingFormat("<|channel>thought", "<channel|>", before="\n")),
    ("<|END_THINKING|>", ThinkingFormat("<|START_THINKING|>", "<|END_THINKING|>")),
    ("[/THINK]", ThinkingFormat("[THINK]", "[/THINK]")),
    (
        "assistant<|think|>",
        ThinkingFormat(
            "<|think|>",
            "<|end|>",
            ("<|begin|>assistant", "<|content|>"),
            after="<|begin|>assistant<|content|>",
            answering="<|content|>",
        ),
    ),
    (
        "assistant to=self<|message|>",
        ThinkingFormat(
            " to=self<|message|>",
            "<|eom|>",
            ("<|start|>assistant", " to=user<|message|>", "<|message|>"),
            after="<|start|>assistant to=user<|message|>",
            answering=" to=user<|message|>",
        ),
    ),
    (
        "open_tag('think'",
        ThinkingFormat(
            "<|open|>think<|sep|>",
            "<|close|>think<|sep|>",
            ("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
            after="<|open|>response<|sep|>",
            answering="<|open|>response<|sep|>",
        ),
    ),
    (
        "[BEGIN FINAL RESPONSE]",
        ThinkingFormat("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", (), "\n", "\n"),
    ),
    ("<|end_of_thought|>", ThinkingFormat("<|begin_of_thought|>", "<|end_of_thought|>", (), "\n\n", "\n\n")),
    ("</seed:think>", ThinkingFormat("<seed:think>", "</seed:think>", (), "", "\n")),
    ("</mm:think>", ThinkingFormat("<mm:think>", "</mm:think>")),
    ("</think:opensource>", ThinkingFormat("<think:opensource>", "</think:opensource>")),
    ("</think{}>", ThinkingFormat("<think:opensource>", "</think:opensource>")),
    ("</thinking>", ThinkingFormat("<thinking>", "</thinking>", (), "\n", "\n\n")),
    ("</reasoning>", ThinkingFormat("<reasoning>", "</reasoning>", (), "\n", "\n\n")),
    ("</thought>", ThinkingFormat("<thought>", "</thought>", (), "\n", "\n\n")),
    ("</think>", ThinkingFormat("<think>", "</think>", (), "\n", "\n\n")),
)

PLAIN_THINKING = ThinkingFormat("<think>", "</think>", (), "\n", "\n\n")
"""The commonest format, for vocabularies that have its tags."""


def find_thinking_format(template: str) -> ThinkingFormat | None:
    """Return how the model of a chat template marks its thinking, None where the template knows of none."""
    source = _JOINED_STRINGS.sub("", _without_comments(template))
    found = next((thinking for needle, thinking in _FAMILIES if needle in source), None)
    if found is None or found.opening != "<think>":
        return found
    return _with_line_breaks(found, source)


def _without_comments(template: str) -> str:
    """Return a template without its comments, in one pass: a pattern would look for the end of each anew."""
    kept, position = [], 0
    while (start := template.find("{#", position)) >= 0 and (end := template.find("#}", start + 2)) >= 0:
        kept.append(template[position:start])
        position = end + 2
    return "".join(kept) + template[position:]


def _with_line_breaks(found: ThinkingFormat, source: str) -> ThinkingFormat:
    """Return the format with the line breaks that this template has around the closing tag of a filled block."""
    source = source.replace("\\n", "\n")
    filled = re.findall(r"(?<!<think>)(?<!\n)(\n*)</think>(\n*)['\"]?", source)
    breaks = [(before, after) for before, after in filled if before or after]
    if breaks:
        before, after = max(breaks, key=lambda pair: (len(pair[0]) + len(pair[1]), pair))
        return found._replace(before=before, after=after)
    if "<think>\n" in source:  # the tags of such a model stand on lines of their own
        return found
    return found._replace(before="", after="")


class Part(NamedTuple):
    """What new text of a reply turned out to be.

    Attributes:
        was_thinking: whether all of the answer so far was thinking; it comes before these parts.
    """

    thinking: str = ""
    answer: str = ""
    was_thinking: bool = False


class ThinkingSplitter:
    """Splits a reply as it comes; however the text is cut into pieces, the parts are the same.

    A block begins only where a reply begins. Tags in code, and those that prose speaks of, are text. A closing tag
    without an opening one makes all before it thinking.

    Args:
        thinking: of the model; None for one that marks none: then all is answer.
        is_open: whether the prompt ends inside a block.
        has_begun: whether the prompt ends inside the answer.

    Attributes:
        answer_spans: where the answer so far stands in all of the text that was taken, rising.
    """

    def __init__(self, thinking: ThinkingFormat | None, *, is_open: bool = False, has_begun: bool = False) -> None:
        self._format = thinking
        self._has_begun = has_begun or thinking is None or not thinking.answering
        self._is_thinking = is_open and thinking is not None
        self._has_block = self._is_thinking
        self._is_at_start = True  # of the reply, or of a block of families that frame every part
        self._is_gap = False  # after a closing tag, before the answer
        self._is_closing_sure = False
        self._has_thought = False
        self._pending = ""
        self._held = ""  # blanks that may turn out to be next to a tag
        self._code = CodeContext()
        self._thinking: list[str] = []
        self._answer: list[str] = []
        self._was_thinking = False
        self._num_chars = 0
        self.answer_spans: list[TextSpan] = []

    @property
    def is_thinking(self) -> bool:
        """Whether what comes next is thinking, as far as is known."""
        return self._is_thinking

    @property
    def is_before_answer(self) -> bool:
        """Whether what comes next is not the answer yet: thinking, or the frame of a family that frames answers."""
        return self._is_thinking or not self._has_begun

    def expect_closing(self) -> None:
        """Note that the next closing tag is one wherever it stands."""
        self._is_closing_sure = True

    def push(self, text: str) -> Part:
        """Take new text and return what is known to be thinking or answer."""
        self._num_chars += len(text)
        if self._format is None:
            self._note_answer(text)
            return Part(answer=text)
        self._pending += text
        return self._take(self._format, is_end=False)

    def flush(self) -> Part:
        """Return what was held back, at the end of a reply."""
        if self._format is None:
            return Part()
        part = self._take(self._format, is_end=True)
        held, self._held = self._held, ""
        if self._is_thinking:
            return part._replace(thinking=part.thinking + held)
        if self._is_gap:
            return part
        self._note_answer(held)
        return part._replace(answer=part.answer + held)

    def _take(self, thinking: ThinkingFormat, *, is_end: bool) -> Part:
        while self._pending:
            markers = self._markers(thinking)
            place = min((at for m in markers if (at := self._pending.find(m[0])) >= 0), default=len(self._pending))
            if place:
                self._emit(self._cut(place))
                continue
            marker = next((m for m in markers if self._pending.startswith(m)), None)
            if marker is None:
                if not is_end and any(m.startswith(self._pending) for m in markers):
                    break
                self._emit(self._cut(1))
            elif self._is_text(marker):
                self._emit(self._cut(len(marker)))
            else:
                self._cut(len(marker))
                self._pass(marker, thinking)
        part = Part("".join(self._thinking), "".join(self._answer), self._was_thinking)
        self._thinking, self._answer, self._was_thinking = [], [], False
        return part

    def _cut(self, length: int) -> str:
        text, self._pending = self._pending[:length], self._pending[length:]
        return text

    def _markers(self, thinking: ThinkingFormat) -> list[str]:
        """Return the markers that would count here."""
        found = [thinking.opening] if self._is_at_start else []
        if self._is_thinking:
            return [*found, thinking.closing]
        if thinking.markers or not self._has_block:
            found.append(thinking.closing)
        return [*found, *thinking.markers]

    def _is_text(self, marker: str) -> bool:
        """Whether a marker only looks like one."""
        assert self._format is not None
        if self._is_thinking and self._is_closing_sure:
            return False
        if self._code.is_inside:
            return True
        is_unopened = marker == self._format.closing and not self._has_block and not self._format.markers
        return is_unopened and self._code.last in _QUOTES and self._code.last != ""

    def _pass(self, marker: str, thinking: ThinkingFormat) -> None:
        """Go over a marker."""
        self._code = CodeContext()
        if marker == thinking.opening:
            self._is_thinking = self._has_block = True
            self._is_at_start = self._is_gap = False
            self._held = ""
            return
        if marker == thinking.closing and not self._has_block and not thinking.markers:
            self._was_thinking = True
            self._thinking, self._answer = [*self._thinking, *self._answer], []
            self.answer_spans.clear()
        if marker == thinking.closing:
            self._has_block = True
            self._is_closing_sure = False
        elif marker.endswith(_last_tag(thinking.answering)):
            self._has_begun = True
        self._is_thinking = False
        self._is_gap = True
        self._is_at_start = bool(thinking.markers)
        self._held = ""

    def _emit(self, text: str) -> None:
        """Take text that is no marker; blanks wait for what follows them."""
        self._code.note(text)
        text = self._held + text
        self._held = ""
        if self._is_thinking:
            if self._is_at_start or not self._has_thought:
                text = text.lstrip("\n")
            kept = text.rstrip()
            self._held = text[len(kept) :]
            if kept:
                self._is_at_start = False
                self._has_thought = True
                self._thinking.append(kept)
        elif not text.strip() and (self._is_at_start or self._is_gap):
            self._held = text
        else:
            self._has_begun = True  # without a frame, if need be
            self._answer.append(_without_gap(text) if self._is_gap else text)
            self._note_answer(self._answer[-1])
            self._is_at_start = self._is_gap = False

    def _note_answer(self, text: str) -> None:
        """Note that the last text that was gone over is part of the answer."""
        end = self._num_chars - len(self._pending)
        start = end - len(text)
        if self.answer_spans and self.answer_spans[-1].end == start:
            start = self.answer_spans.pop().start
        if end > start:
            self.answer_spans.append(TextSpan(start, end))


def _last_tag(text: str) -> str:
    return "<" + text.rpartition("<")[2]


def _without_gap(text: str) -> str:
    """Return text without the blank lines, or else the blanks, that it begins with; an indentation stays."""
    stripped = text.lstrip()
    blanks = text[: len(text) - len(stripped)]
    return (blanks.rpartition("\n")[2] if "\n" in blanks else "") + stripped
