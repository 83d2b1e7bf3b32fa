"""The forms in which a chat may be handed to a template, tried in turn, and the variables that a form becomes.

Templates differ in what they refuse: a system prompt, two turns of one role, a reply that begins the chat, a tool's
answer; and in how they want to be told of calls of tools and of thinking.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from engine.messages import ChatMessage, Role, ToolCall

Hide = Callable[[Any], Any]
"""Takes the special texts out of a JSON value."""

_THINKING_NAMES = ("reasoning_content", "thinking", "reasoning", "thought")
_THINKING_BLOCK = re.compile(r"block(\[['\"]|\.)thinking")
_SHORT_ID_LENGTH = 9  # what the templates of one family insist on


class Style(NamedTuple):
    """How a template is told of calls of tools."""

    arguments_as_text: bool = False
    short_ids: bool = False
    content_is_none: bool = False


class Form(NamedTuple):
    """One way to hand a chat to a template."""

    messages: list[ChatMessage]
    style: Style = Style()


_TOOL_STYLES = (
    Style(),
    Style(arguments_as_text=True),
    Style(short_ids=True),
    Style(arguments_as_text=True, short_ids=True),
    Style(content_is_none=True),
)


def forms_of(messages: Sequence[ChatMessage], *, takes_system: bool) -> Iterator[Form]:
    """Yield a chat in the forms that a template may take.

    As it is; with neighbours of one role joined; with system messages as the user's too; without an assistant's turn
    that begins it; and at last with tools' answers as the user's.
    """
    styles = _TOOL_STYLES if any(message.tool_calls for message in messages) else _TOOL_STYLES[:1]
    seen: list[list[ChatMessage]] = []
    for chat in _chats(messages, takes_system=takes_system):
        if chat and chat not in seen:
            seen.append(chat)
            has_calls = any(message.tool_calls for message in chat)
            yield from (Form(chat, style) for style in (styles if has_calls else styles[:1]))


def _chats(messages: Sequence[ChatMessage], *, takes_system: bool) -> Iterator[list[ChatMessage]]:
    if takes_system or all(message.role is not Role.SYSTEM for message in messages):
        yield list(messages)
        yield _joined(messages)
    folded = _joined([ChatMessage(Role.USER, m.content) if m.role is Role.SYSTEM else m for m in messages])
    yield folded
    if len(folded) > 1 and folded[0].role is Role.ASSISTANT:
        yield folded[1:]
    if any(message.role is Role.TOOL or message.tool_calls for message in messages):
        yield _joined([_without_tools(message) for message in folded])


def _joined(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Join neighbours of one role; calls of tools and their answers stay as they are."""
    chat: list[ChatMessage] = []
    for (role, _), turn in itertools.groupby(enumerate(messages), key=lambda item: _turn_key(*item)):
        parts = [message for _, message in turn]
        if len(parts) == 1:
            content = parts[0].content if parts[0].content.strip() else ""
            chat.append(msgspec.structs.replace(parts[0], content=content))
            continue
        content = "\n\n".join(m.content for m in parts if m.content.strip())
        chat.append(ChatMessage(role, content, thinking=parts[-1].thinking))
    return chat


def _turn_key(number: int, message: ChatMessage) -> tuple[Role, int]:
    is_alone = message.role is Role.TOOL or bool(message.tool_calls)
    return message.role, number if is_alone else -1


def _without_tools(message: ChatMessage) -> ChatMessage:
    if message.role is Role.TOOL:
        return ChatMessage(Role.USER, message.content)
    if message.tool_calls:
        calls = [f'{{"name": "{call.name}", "arguments": {call.arguments}}}' for call in message.tool_calls]
        content = "\n\n".join(text for text in (message.content, *calls) if text.strip())
        return ChatMessage(message.role, content, message.thinking)
    return message


class MessageWriter:
    """Makes messages into what one template reads.

    Args:
        template: tells under which name it looks for thinking.
    """

    def __init__(self, template: str) -> None:
        named = (name for name in _THINKING_NAMES if re.search(rf"\b(message|msg|m)\w*(\.|\W+){name}\b", template))
        found = "reasoning_content" if "reasoning_content" in template else next(named, None)
        self._thinking_name = found or "reasoning_content"
        self._takes_blocks = found is None and bool(_THINKING_BLOCK.search(template))

    def write(self, form: Form, hide: Hide) -> list[dict[str, Any]]:
        """Return the template's `messages`."""
        ids = _ids_of(form)
        names = {call.call_id: call.name for message in form.messages for call in message.tool_calls if call.call_id}
        written: list[dict[str, Any]] = []
        for number, message in enumerate(form.messages):
            item: dict[str, Any] = {"role": message.role.value, "content": hide(message.content)}
            if message.role is Role.ASSISTANT:
                self._add_thinking(item, message, hide)
            if message.tool_calls:
                if form.style.content_is_none and not message.content.strip():
                    item["content"] = None
                item["tool_calls"] = [
                    _written_call(call, ids[number, place], form.style, hide)
                    for place, call in enumerate(message.tool_calls)
                ]
            if message.role is Role.TOOL:
                item["tool_call_id"] = hide(ids[number, 0])
                item["name"] = hide(names.get(message.call_id) or _latest_name(form.messages[:number]))
            written.append(item)
        return written

    def _add_thinking(self, item: dict[str, Any], message: ChatMessage, hide: Hide) -> None:
        if not message.thinking.strip():
            return
        thinking = hide(message.thinking)
        if self._takes_blocks:
            blocks = [{"type": "thinking", "thinking": thinking}]
            if message.content:
                blocks.append({"type": "text", "text": item["content"]})
            item["content"] = blocks
        else:
            item[self._thinking_name] = thinking


def _written_call(call: ToolCall, call_id: str, style: Style, hide: Hide) -> dict[str, Any]:
    arguments: Any = call.arguments
    if not style.arguments_as_text:
        try:
            decoded = msgspec.json.decode(call.arguments or "{}")
        except (msgspec.MsgspecError, RecursionError, ValueError):
            decoded = None
        if isinstance(decoded, dict):
            arguments = decoded
    function = {"name": hide(call.name), "arguments": hide(arguments)}
    return {"id": hide(call_id), "type": "function", "function": function}


def _ids_of(form: Form) -> dict[tuple[int, int], str]:
    """Return the id of every call and of every answer, by message and place; those that lack one get one."""
    ids: dict[tuple[int, int], str] = {}
    open_calls: list[str] = []
    short: dict[str, str] = {}

    def fitted(call_id: str) -> str:
        if not form.style.short_ids or (len(call_id) == _SHORT_ID_LENGTH and call_id.isalnum()):
            return call_id
        return short.setdefault(call_id, f"call{len(short):05}")

    num_calls = 0
    for number, message in enumerate(form.messages):
        for place, call in enumerate(message.tool_calls):
            ids[number, place] = fitted(call.call_id or f"call{num_calls:05}")
            open_calls.append(ids[number, place])
            num_calls += 1
        if message.role is Role.TOOL:
            call_id = fitted(message.call_id) if message.call_id else (open_calls[0] if open_calls else "")
            if call_id in open_calls:
                open_calls.remove(call_id)
            ids[number, 0] = call_id
    return ids


def _latest_name(messages: Sequence[ChatMessage]) -> str:
    return next((call.name for message in reversed(messages) for call in message.tool_calls), "tool")
