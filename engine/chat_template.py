"""Messages to prompt text by the model's own template or by a known format."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.backend import Vocabulary
from engine.chat_formats import FILE_FORMAT, KNOWN_FORMATS, usable_formats
from engine.chat_forms import Form, MessageWriter, forms_of
from engine.errors import ChatTemplateError, RequestError
from engine.messages import ChatMessage, PromptOptions, Role
from engine.reasoning import PLAIN_THINKING, ThinkingFormat, find_thinking_format
from engine.special_texts import Marks, RenderedPrompt, SpecialTexts, unused_marks
from engine.template_renderer import RENDER_LIMIT_S, TemplateRenderer
from engine.text import clean_text

# Nothing in this chat is unusual but that it has a system message.
TRIAL_CHAT = (
    ChatMessage(Role.SYSTEM, "Be brief."),
    ChatMessage(Role.USER, "Hello"),
    ChatMessage(Role.ASSISTANT, "Hello!"),
    ChatMessage(Role.USER, "How are you?"),
)
_RESERVED = ("messages", "add_generation_prompt", "bos_token", "eos_token")

_USUAL = PromptOptions()


class ChatTemplate:
    """One model's template, or a known format where the file has none and the vocabulary has the format's markers.

    A chat that the template refuses is put in other forms: see `forms_of`.

    Args:
        renderer: where it runs.
        vocabulary: of the model; its special texts cannot be forged by a message.
        name: of the format; None takes the file's own, else the first known one.

    Attributes:
        name: of the format, None where there is none.
        notices: what the user should know about this template; complete after `try_out`.
        thinking: how the model marks what it thinks, None where it does not.
        specials: the texts that a message must not turn into tokens.
        user_lead: what stands in front of a user's message; known after `try_out`.
        turn_change: what stands between a reply and the user's next message; known after `try_out`.
        moves_system: whether the system prompt stands in the user's last message, wherever that is.

    Raises:
        ChatTemplateError: (from `try_out` and `render`) the template is missing, fails, or takes too long.
    """

    def __init__(self, renderer: TemplateRenderer, vocabulary: Vocabulary, name: str | None = None) -> None:
        self.notices: list[str] = []
        self.user_lead = ""
        self.turn_change = ""
        self.moves_system = False
        self._renderer = renderer
        self._vocabulary = vocabulary
        self._takes_system = True
        self._template = vocabulary.chat_template if name in (None, FILE_FORMAT) else None
        self.name = FILE_FORMAT if self._template is not None else name
        special_texts = vocabulary.special_texts
        if self._template is None and name is None and (usable := usable_formats(vocabulary)):
            self.name = usable[0]
            self.notices.append(
                f"This file has no chat template; the {self.name} format is used, because its markers are in the "
                "vocabulary."
            )
        if self._template is None and self.name is not None:
            markers, self._template = KNOWN_FORMATS[self.name]
            special_texts = sorted({*special_texts, *markers}, key=len, reverse=True)
        self.specials = SpecialTexts(special_texts)
        self.thinking = self._find_thinking()
        self._writer = MessageWriter(self._template or "")

    def try_out(self) -> None:
        """Render a usual chat to find out, once, whether the template takes system messages."""
        try:
            rendered, form = self._render(TRIAL_CHAT, _USUAL)
        except ChatTemplateError:
            if self._renderer.spare_s <= 0:  # it was late, and would be again
                raise
            self._render(TRIAL_CHAT[1:2], _USUAL)  # a chat of one message may do
            return
        if _leaves_system_out(rendered.text, form):
            self._takes_system = False
            folded, folded_form = self._render(TRIAL_CHAT, _USUAL)
            self._takes_system = TRIAL_CHAT[0].content not in folded.text
            if not self._takes_system:
                rendered, form = folded, folded_form
        if form.messages[0].role is not Role.SYSTEM:
            self._takes_system = False
            self.notices.append(
                "This model's template takes no system prompt: it is put in front of the first message."
            )
        self.user_lead = _user_lead(rendered.text, form.messages)
        self.turn_change = _turn_change(rendered.text, form.messages)
        self.moves_system = rendered.text.find(TRIAL_CHAT[0].content) > rendered.text.find(TRIAL_CHAT[1].content) >= 0

    def render(self, messages: Sequence[ChatMessage], options: PromptOptions = _USUAL) -> RenderedPrompt:
        """Return the prompt of a chat, up to where the assistant's reply begins.

        Raises:
            RequestError: the tools or variables cannot be read.
        """
        return self._render(messages, options)[0]

    def _find_thinking(self) -> ThinkingFormat | None:
        if self.name == FILE_FORMAT:
            return find_thinking_format(self._template or "")
        tags = (PLAIN_THINKING.opening, PLAIN_THINKING.closing)
        is_known = all(len(self._vocabulary.tokenize(tag, parse_special=True)) == 1 for tag in tags)
        return PLAIN_THINKING if is_known else None

    def _render(self, messages: Sequence[ChatMessage], options: PromptOptions) -> tuple[RenderedPrompt, Form]:
        """Return the prompt, and the first form of the chat that the template takes."""
        template = self._template
        if template is None:
            raise ChatTemplateError("This model file has no chat template.", "Choose a chat (instruct) model.")
        given, tools = _variables(options), [_tool(text) for text in options.tools]
        marks = unused_marks(template, options.variables, *options.tools, *_texts(messages), *_strings([given, tools]))
        first_error: ChatTemplateError | None = None
        first_found: tuple[RenderedPrompt, Form] | None = None
        limit_s = RENDER_LIMIT_S  # for all forms together
        common = self._common(template, options, given, tools, marks)

        def render(form: Form, limit_s: float) -> str:
            written = self._writer.write(form, lambda value: self.specials.hide_in(value, marks))
            return self._renderer.render(template, {**common, "messages": written}, limit_s)

        for form in forms_of(messages, takes_system=self._takes_system):
            try:
                text = render(form, limit_s)
            except ChatTemplateError as error:
                first_error = first_error or error
                limit_s = self._renderer.spare_s
                if limit_s <= 0:
                    break
            else:
                found = RenderedPrompt(self.specials.reveal(text, marks)), form
                limit_s = self._renderer.spare_s
                if all(message.role is not Role.TOOL for message in form.messages) or limit_s <= 0:
                    return found
                try:
                    if _has_answers(render(_with_known_answers(form), limit_s), form):
                        return found
                except ChatTemplateError:  # what it reads in an answer decides: then it looks at it
                    return found
                first_found = first_found or found
                limit_s = self._renderer.spare_s
                if limit_s <= 0:
                    break
        if first_found is not None:
            return first_found
        assert first_error is not None
        raise first_error

    def _common(
        self, template: str, options: PromptOptions, given: dict[str, Any], tools: list[Any], marks: Marks
    ) -> dict[str, Any]:
        """Return the variables of a template that no form of the chat changes."""
        variables: dict[str, Any] = self.specials.hide_in(given, marks)
        if options.enable_thinking is not None:
            variables["enable_thinking"] = options.enable_thinking
        if tools:
            variables["tools"] = self.specials.hide_in(tools, marks)
            if "functions" not in variables and not re.search(r"\btools\b", template):  # an older name, as text
                variables["functions"] = self.specials.hide(msgspec.json.encode(tools).decode(), marks)
        return {
            **variables,
            "add_generation_prompt": True,
            "bos_token": self._vocabulary.bos_text,
            "eos_token": self._vocabulary.eos_text,
        }


def _leaves_system_out(text: str, form: Form) -> bool:
    """Whether a trial chat's prompt has what the user says and not the system message; no error tells of that."""
    system, *others = form.messages
    users = (message.content for message in others if message.role is Role.USER)
    return system.role is Role.SYSTEM and system.content not in text and all(content in text for content in users)


def _known_answer(number: int) -> str:
    return f"answerOfTheTool{number}End"


def _with_known_answers(form: Form) -> Form:
    """Return a chat whose tools answer what no template prints by itself, as "4" or "user" may be."""
    chat = [
        msgspec.structs.replace(message, content=_known_answer(number)) if message.role is Role.TOOL else message
        for number, message in enumerate(form.messages)
    ]
    return form._replace(messages=chat)


def _has_answers(text: str, form: Form) -> bool:
    """Whether the known answers are in a prompt: some templates leave out what they do not know."""
    numbers = (number for number, message in enumerate(form.messages) if message.role is Role.TOOL)
    return all(_known_answer(number) in text for number in numbers)


def _variables(options: PromptOptions) -> dict[str, Any]:
    given = _decode(options.variables, "The template variables are")
    if not isinstance(given, dict):
        raise RequestError(
            "The template variables are no JSON object.", 'Write them as in {"reasoning_effort": "low"}.'
        )
    reserved = [name for name in _RESERVED if name in given]
    if reserved:
        raise RequestError(
            f"The template variable {reserved[0]} cannot be set.", "Leave it out: it follows from the chat."
        )
    return given


def _tool(text: str) -> Any:
    tool = _decode(text, "A tool is")
    if not isinstance(tool, dict):
        raise RequestError("A tool is no JSON object.", "Describe each tool as a JSON Schema object.")
    return tool


def _decode(text: str, what: str) -> Any:
    try:
        return msgspec.json.decode(clean_text(text))
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise RequestError(f"{what} no valid JSON: {error}.", "Check the brackets and quotes.") from error


def _texts(messages: Sequence[ChatMessage]) -> list[str]:
    """Return every text in a chat that people or models wrote."""
    texts: list[str] = []
    for message in messages:
        texts += [message.content, message.thinking, message.call_id]
        for call in message.tool_calls:
            texts += [call.name, call.arguments, call.call_id, *_strings(_lenient(call.arguments))]
    return texts


def _lenient(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if "\\u" in text else None
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _strings(value: Any) -> list[str]:
    """Return all strings in a JSON value: an escape may have hidden a character."""
    found: list[str] = []
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            left += [*item, *item.values()]
        elif isinstance(item, list):
            left += item
    return found


def _user_lead(text: str, chat: Sequence[ChatMessage]) -> str:
    """Return what a template puts in front of every message of the user, from a rendered trial chat."""
    first, *_, last = (message.content for message in chat if message.role is Role.USER)
    before_last = text[: max(text.rfind(last), 0)]
    answer_place = before_last.rfind(TRIAL_CHAT[2].content)
    before_first = before_last[: max(before_last.rfind(first, 0, max(answer_place, 0)), 0)]
    length = 0
    while length < min(len(before_first), len(before_last)) and before_first[-1 - length] == before_last[-1 - length]:
        length += 1
    return before_last[len(before_last) - length :] if length else ""


def _turn_change(text: str, chat: Sequence[ChatMessage]) -> str:
    """Return what a template puts between a reply and the next message, from a rendered trial chat."""
    before_last = text[: max(text.rfind(chat[-1].content), 0)]
    _, found, between = before_last.rpartition(TRIAL_CHAT[2].content)
    return between if found else ""
