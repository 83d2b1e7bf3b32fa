"""`fireside cache`: what is kept of prompts that were read: shown, forgotten by name or chat, or all of it deleted."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from app.cache_limits import cache_params
from app.cli.event_queue import EventQueue
from app.cli.model_texts import size_text
from app.cli.outcome import ExitCode, print_event, show_error
from app.cli.session import ChatSession
from app.cli.terminal_text import safe_text
from app.errors import UsageError
from app.paths import Paths
from app.settings import SettingsStore
from engine import (
    CacheDescribed,
    CacheSource,
    ClearCache,
    EngineClient,
    ForgetChats,
    ForgetNamed,
    KeptPrompt,
    ProcessClient,
    SetCache,
)

_PLACES = {CacheSource.SLOT: "in the context", CacheSource.RAM: "in memory", CacheSource.DISK: "on disk"}
_SHOWN_CHARACTERS = 60
_USE = "Write `/cache`, `/cache forget NAME` or `/cache clear`."


class _Group(NamedTuple):
    """All that is kept under one name, or of one chat; neither where it is of no chat."""

    name: str
    chat_id: str | None
    kept: list[KeptPrompt]

    @property
    def num_bytes(self) -> int:
        """Bytes in memory and on disk."""
        return sum(item.num_bytes for item in self.kept if item.source is not CacheSource.SLOT)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show what is kept on disk")
    forget = actions.add_parser("forget", help="delete what is kept under a name, or of a chat")
    forget.add_argument("names", nargs="+", metavar="NAME", help="a name, or the id of a chat, as `list` shows it")
    clear = actions.add_parser("clear", help="delete all of it, whole replies too; the chats stay")
    for action in (listing, forget, clear):
        action.add_argument("--json", action="store_true", help="print JSON Lines")


def run(
    options: argparse.Namespace, paths: Paths, make_client: Callable[[bool], EngineClient] | None = None
) -> ExitCode:
    """Do one of the actions.

    Args:
        make_client: stands in for the engine process; takes whether it is to be the fake one.

    Raises:
        UsageError: nothing is kept under a name.
        EngineError: the engine, which keeps it, does not start.
    """
    client = make_client(options.fake_engine) if make_client else ProcessClient(fake=options.fake_engine)
    session = ChatSession(client)
    with session, session.interrupted_by_ctrl_c():
        settings, notice = SettingsStore(paths.settings_file).load()
        if notice:
            print(f"fireside: {notice}", file=sys.stderr)
        session.send(SetCache(params=cache_params(settings, str(paths.prompt_cache_dir))))
        if options.action == "forget":
            _forget(session, options.names, as_json=options.json, hint="`fireside cache list` shows what there is.")
        elif options.action == "clear":
            _clear(session, as_json=options.json)
        else:
            _list(session.describe_cache(), as_json=options.json)
    show_refusal(session.events, as_json=options.json)
    return ExitCode.DONE


def show_refusal(events: EventQueue, *, as_json: bool = False) -> None:
    """Tell once, where it is so, that nothing of what was read is kept on disk."""
    refusal = events.take_refusal()
    if refusal is not None:
        show_error(refusal)
        if as_json:
            print_event("cache_refused", message=refusal.message, hint=refusal.hint)


def obey_cache(argument: str, session: ChatSession) -> None:
    """Do what is written behind `/cache` in a chat: nothing to list, `forget NAME`, or `clear`.

    Raises:
        UsageError: it is something else, or nothing is kept under the name.
        EngineError: the engine died.
    """
    session.forget_the_past()
    action, _, name = argument.partition(" ")
    if not argument:
        _list(session.describe_cache(), as_json=False)
    elif action == "forget" and name.strip():
        _forget(session, [name.strip()], as_json=False, hint="/cache shows what there is.")
    elif argument == "clear":
        _clear(session, as_json=False)
    else:
        raise UsageError(f"/cache does not know {argument!r}.", _USE)


def _groups_of(described: CacheDescribed) -> list[_Group]:
    """Return what is kept, names first, then chats."""
    groups: dict[tuple[str, str | None], _Group] = {}
    for item in described.kept:
        key = (item.name, None) if item.name else ("", item.chat_id)
        groups.setdefault(key, _Group(*key, [])).kept.append(item)
    return sorted(groups.values(), key=lambda group: (not group.name, group.chat_id is None))


def _forget(session: ChatSession, names: Sequence[str], *, as_json: bool, hint: str) -> None:
    groups, gone = _groups_of(session.describe_cache()), []
    for name in names:
        found = next((group for group in groups if name in (group.name, group.chat_id)), None)
        if found is None:
            raise UsageError(f"Nothing is kept under the name {safe_text(name)}.", hint)
        gone.append(found)
    session.send(ForgetNamed(names=tuple(group.name for group in gone if group.name)))
    session.send(ForgetChats(chat_ids=tuple(group.chat_id for group in gone if group.chat_id is not None)))
    session.describe_cache()  # answered once it is done
    for group in gone:
        if as_json:
            print_event("forgotten", name=group.name, chat_id=group.chat_id, num_bytes=group.num_bytes)
        else:
            print(f"{_title(group)} is forgotten ({size_text(group.num_bytes)}).")


def _clear(session: ChatSession, *, as_json: bool) -> None:
    before = session.describe_cache()
    session.send(ClearCache(request_id="clear"))
    session.describe_cache()
    num_bytes = before.ram_bytes + before.disk_bytes
    if as_json:
        print_event("cleared", num_bytes=num_bytes, num_replies=before.num_replies)
    else:
        print(f"What was kept of prompts is deleted ({size_text(num_bytes)}). The chats stay.")


def _list(described: CacheDescribed, *, as_json: bool) -> None:
    if as_json:
        for item in described.kept:
            print_event("kept", **msgspec.to_builtins(item))
        totals = msgspec.to_builtins(described)
        print_event("listed", num_kept=len(described.kept), **{key: totals[key] for key in _TOTALS})
        return
    groups = _groups_of(described)
    for heading, is_named in (("Read ahead", True), ("Chats", False)):
        rows = [group for group in groups if bool(group.name) is is_named]
        if rows:
            print(heading)
        for group in rows:
            print(f"  {_row(group)}")
    if not groups:
        print("Nothing is kept of prompts.")
    print("\n".join(_total_lines(described)))


_TOTALS = ("ram_bytes", "max_ram_bytes", "disk_bytes", "max_disk_bytes", "num_replies", "reply_bytes")


def _total_lines(described: CacheDescribed) -> list[str]:
    lines = []
    if described.max_ram_bytes:
        lines.append(f"In memory: {size_text(described.ram_bytes)} of {size_text(described.max_ram_bytes)}.")
    lines.append(f"On disk: {size_text(described.disk_bytes)} of {size_text(described.max_disk_bytes)}.")
    if described.num_replies:
        lines.append(f"Whole replies: {described.num_replies:,}, {size_text(described.reply_bytes)}.")
    return lines


def _row(group: _Group) -> str:
    most = max(item.num_tokens for item in group.kept)
    sizes = {
        words: sum(item.num_bytes for item in group.kept if item.source is source) for source, words in _PLACES.items()
    }
    places = ", ".join(f"{size_text(size)} {words}" for words, size in sizes.items() if size)
    models = ", ".join(dict.fromkeys(item.model_name for item in group.kept))
    return f"{_title(group)}: {most:,} tokens, {places}, {safe_text(models)}"


def _title(group: _Group) -> str:
    title = group.name or group.chat_id or "of no chat"
    shown = title if len(title) <= _SHOWN_CHARACTERS else f"{title[:_SHOWN_CHARACTERS]}…"
    return " ".join(safe_text(shown).split())
