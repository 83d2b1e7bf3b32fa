"""Sets of prompts: the bundled one, a short choice of it, and files of the user's own."""

import importlib.resources
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from app.compare.results import MAX_PROMPTS, PromptItem
from app.errors import UsageError
from engine import ChatMessage, EngineError, Role, chat_of_rows, clean_text

BUNDLED = "Fireside"
MAX_FILE_BYTES = 16 << 20
SUFFIXES = (".txt", ".md", ".jsonl", ".json")
_HINT = (
    "Give a text file with one prompt a line, or with blank lines between longer prompts, or .json or .jsonl with "
    "messages."
)
_TEXT_KEYS = ("prompt", "text", "question", "content")
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$")
_MAX_ID = 60


class PromptSet(NamedTuple):
    """Some prompts with a name."""

    name: str
    prompts: tuple[PromptItem, ...]


class _Row(msgspec.Struct):
    id: str
    category: str
    text: str = ""
    messages: list[dict[str, str]] = []
    document: str = ""
    short: bool = False


class _Bundle(msgspec.Struct):
    name: str
    documents: dict[str, list[str]]
    prompts: list[_Row]


def bundled_prompts() -> PromptSet:
    """Return our own prompts of all kinds."""
    bundle = _bundle()
    return PromptSet(bundle.name, tuple(_item_of(row, bundle) for row in bundle.prompts))


def short_prompts() -> PromptSet:
    """Return one of our own prompts for each kind: enough for a first look, in a fraction of the time."""
    bundle = _bundle()
    return PromptSet(f"{bundle.name}, short", tuple(_item_of(row, bundle) for row in bundle.prompts if row.short))


def prompts_of_chats(name: str, chats: list[tuple[str, tuple[ChatMessage, ...]]]) -> PromptSet:
    """Return a set of past chats, each cut behind its last message of the user; those without one are left out.

    Args:
        chats: title and messages of each.
    """
    prompts: list[PromptItem] = []
    for title, messages in chats:
        last = max((place for place, message in enumerate(messages) if message.role is Role.USER), default=None)
        if last is not None:
            number = len(prompts) + 1
            item_id = f"{number}: {_short(clean_text(title))}" if title.strip() else str(number)
            prompts.append(PromptItem(id=item_id, category="chat", messages=messages[: last + 1]))
    return PromptSet(name, tuple(prompts))


def read_prompts(path: Path) -> PromptSet:
    """Return the prompts in a file.

    A text file has one prompt a line, or, where it has a blank line, prompts between blank lines. In Markdown a heading
    begins a prompt and names it. JSON is a list, or an object with a list `prompts`, of texts, of objects with `prompt`
    or `messages`, or of lists of messages; JSON Lines has one such a line.

    Raises:
        UsageError: it cannot be read, or holds no prompt.
    """
    name = clean_text(str(path))
    text = _text_of(path, name)
    suffix = path.suffix.lower()
    if suffix in (".json", ".jsonl"):
        items = [
            _item_of_value(value, number, name)
            for number, value in enumerate(_values_of(text, name, is_lines=suffix == ".jsonl"), 1)
        ]
    else:
        found = _sections(text) if suffix == ".md" else [("", part) for part in _parts(text)]
        items = [
            PromptItem(id=_short(title) or str(number), messages=(ChatMessage(Role.USER, part),))
            for number, (title, part) in enumerate(found, 1)
        ]
    if not items:
        raise UsageError(f"{name} holds no prompt.", _HINT)
    if len(items) > MAX_PROMPTS:
        raise UsageError(f"{name} holds {len(items):,} prompts.", f"Give at most {MAX_PROMPTS:,}.")
    return PromptSet(clean_text(path.name), _with_own_ids(items))


def _bundle() -> _Bundle:
    data = importlib.resources.files("app.compare").joinpath("prompts.json").read_bytes()
    return msgspec.json.decode(data, type=_Bundle)


def _item_of(row: _Row, bundle: _Bundle) -> PromptItem:
    text = "\n\n".join([*bundle.documents.get(row.document, []), row.text])
    messages = chat_of_rows(row.messages) if row.messages else (ChatMessage(Role.USER, text),)
    return PromptItem(id=row.id, category=row.category, messages=messages)


def _text_of(path: Path, name: str) -> str:
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            raise UsageError(f"{name} is no file.", _HINT)
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not valid"
        raise UsageError(f"{name} cannot be read: {reason}.", _HINT) from error
    if len(data) > MAX_FILE_BYTES:
        limit = MAX_FILE_BYTES >> 20
        raise UsageError(f"{name} is larger than {limit} MiB.", "Give a file with fewer or shorter prompts.")
    encoding = next((found for mark, found in _MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is no text in UTF-8.", "Save it as UTF-8, and try again.") from error
    if "\0" in text:
        raise UsageError(f"{name} is no text.", _HINT)
    return clean_text(text.replace("\r\n", "\n").replace("\r", "\n"))


def _parts(text: str) -> list[str]:
    """Return the prompts of a text: between blank lines if there are any inside, else one a line."""
    blocks = [block.strip("\n") for block in re.split(r"\n[^\S\n]*(?:\n[^\S\n]*)+", text.strip("\n"))]
    parts = blocks if len([block for block in blocks if block.strip()]) > 1 else text.split("\n")
    return [part.strip() for part in parts if part.strip()]


def _sections(text: str) -> list[tuple[str, str]]:
    """Return title and text of the prompts in Markdown; without headings they are told apart as in plain text."""
    sections: list[tuple[str, list[str]]] = []
    is_code = False
    for line in text.split("\n"):
        is_code ^= line.lstrip().startswith(("```", "~~~"))
        heading = None if is_code else _HEADING.match(line)
        if heading:
            sections.append((heading[1], []))
        elif sections:
            sections[-1][1].append(line)
    if not sections:
        return [("", part) for part in _parts(text)]
    found = [(title, "\n".join(lines).strip()) for title, lines in sections]
    return [(title, body) for title, body in found if body]


def _values_of(text: str, name: str, *, is_lines: bool) -> list[Any]:
    if not is_lines:
        value = _decoded(text, name, "")
        if isinstance(value, dict) and isinstance(value.get("prompts"), list):
            value = value["prompts"]
        return value if isinstance(value, list) and not _is_chat(value) else [value]
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return [_decoded(line, name, f"Line {number} of ") for number, line in lines]


def _decoded(text: str, name: str, place: str) -> Any:
    if not text.strip():
        raise UsageError(f"{name} holds no prompt.", _HINT)
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place}{name} is no JSON.", _HINT, str(error)) from error


def _is_chat(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(row, dict) and "role" in row for row in value)


def _item_of_value(value: Any, number: int, name: str) -> PromptItem:
    where = f"Prompt {number} in {name}"
    item_id, category, messages = str(number), "", value
    if isinstance(value, dict):
        given = value.get("id", value.get("name"))
        item_id = _short(clean_text(str(given))) if isinstance(given, str | int) and str(given).strip() else item_id
        kind = value.get("category")
        category = _short(clean_text(kind)) if isinstance(kind, str) else ""
        text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
        messages = value.get("messages", text)
    if isinstance(messages, str) and messages.strip():
        return PromptItem(id=item_id, category=category, messages=(ChatMessage(Role.USER, messages),))
    try:
        chat = chat_of_rows(messages) if isinstance(messages, list) else ()
    except EngineError as error:
        raise UsageError(f"{where} is no chat: {error.message}", error.hint) from error
    if not chat or not any(message.content.strip() for message in chat):
        raise UsageError(f"{where} is empty, or no text.", _HINT)
    if chat[-1].role is Role.ASSISTANT:
        raise UsageError(f"{where} ends with an answer.", "End each chat with a message of the user.")
    return PromptItem(id=item_id, category=category, messages=chat)


def _with_own_ids(items: list[PromptItem]) -> tuple[PromptItem, ...]:
    """Return the prompts with ids of which no two are the same."""
    seen: set[str] = set()
    result = []
    for number, item in enumerate(items, 1):
        item_id = item.id
        while item_id in seen:
            item_id = f"{item.id} ({number})" if item_id == item.id else f"{item_id}'"
        seen.add(item_id)
        result.append(msgspec.structs.replace(item, id=item_id))
    return tuple(result)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_ID else line[: _MAX_ID - 1] + "…"
