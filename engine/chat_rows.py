"""Chats as other programs write them, rows of role and content, made into messages."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from engine.errors import RequestError
from engine.messages import ChatMessage, Role, ToolCall
from engine.text import clean_text, text_of_content

_ROLES = {role.value: role for role in Role} | {
    "developer": Role.SYSTEM,
    "human": Role.USER,
    "model": Role.ASSISTANT,
    "bot": Role.ASSISTANT,
    "function": Role.TOOL,
}
_THINKING = ("reasoning_content", "reasoning", "thinking")


def chat_of_rows(rows: object) -> tuple[ChatMessage, ...]:
    """Return the messages of rows with role, content, and what tools and thinking go with them.

    Raises:
        RequestError: something is no such row; it says which.
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise RequestError("A chat has to be a list of messages.", "Give a list of objects with role and content.")
    return tuple(_message(number, row) for number, row in enumerate(rows, 1))


def _message(number: int, row: object) -> ChatMessage:
    if not isinstance(row, Mapping):
        raise _error(number, "is no object", "Give each message a role and a content.")
    role = row.get("role")
    found = _ROLES.get(role.strip().lower()) if isinstance(role, str) else None
    if found is None:
        raise _error(number, f"has the role {_short(role)}", f"The roles are {', '.join(r.value for r in Role)}.")
    if isinstance(row.get("content"), bool | int | float):
        raise _error(number, "has a number for its content", "Write the content as text.")
    thinking = next((row[name] for name in _THINKING if row.get(name)), None)
    call_id = row.get("tool_call_id")
    return ChatMessage(
        found,
        text_of_content(row.get("content")),
        text_of_content(thinking) if found is Role.ASSISTANT else "",
        _calls(number, row.get("tool_calls")) if found is Role.ASSISTANT else (),
        clean_text(call_id) if found is Role.TOOL and isinstance(call_id, str) else "",
    )


def _calls(number: int, calls: object) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list | tuple):
        raise _error(number, "has calls of tools that are no list", "Give a list, one object for each call.")
    return tuple(_call(number, call) for call in calls)


def _call(number: int, call: object) -> ToolCall:
    function: Any = call.get("function", call) if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(name, str) or not name.strip():
        raise _error(number, "calls a tool without a name", "Give each call a function with name and arguments.")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise _error(number, f"calls {_short(name)} with arguments that are no JSON", "Give an object.") from error
    call_id = call.get("id")
    return ToolCall(
        name=clean_text(name),
        arguments=clean_text(arguments),
        call_id=clean_text(call_id) if isinstance(call_id, str) else "",
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _error(number: int, what: str, hint: str) -> RequestError:
    return RequestError(f"Message {number} {what}.", hint)
