"""`fireside models fit`: whether a model fits this machine, told from its header before anything is loaded."""

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.cli.arguments import whole_number, whole_number_or
from app.cli.bench import note_bandwidth
from app.cli.chat_options import adapter_of
from app.cli.outcome import ExitCode, print_event
from app.cli.session import ChatSession
from app.cli.terminal_text import safe_text, wrapped
from app.errors import UsageError
from app.memory_record import MemoryRecord
from app.model_choice import ModelChoice, choose_model
from app.paths import Paths
from app.room import room_of, wish_of
from app.settings import Settings, SettingsStore
from engine import EngineDescription, EngineError, ModelParams, ProcessClient, param_infos
from models import (
    CACHE_TYPES,
    Fit,
    GGUFInfo,
    Room,
    Verdict,
    Wish,
    draft_notes,
    draft_reason,
    fit,
    parts_of,
    read_draft_file,
    read_gguf_info,
    target_reason,
)

_GIB, _MIB = 1 << 30, 1 << 20
_VERDICTS = {
    Verdict.FITS: "fits",
    Verdict.TIGHT: "fits, but leaves little for other programs",
    Verdict.DOES_NOT_FIT: "does not fit",
    Verdict.UNKNOWN: "cannot be told",
}


def add_fit_parser(subparsers: Any) -> None:
    """Add `fit` to the subcommands of `fireside models`."""
    parser = subparsers.add_parser("fit", help="whether a model fits this machine", description=__doc__)
    parser.add_argument("name", metavar="MODEL", nargs="?", help="path of a .gguf file, a library name, or `starter`")
    infos = param_infos(ModelParams)
    parser.add_argument("--ctx", metavar="N", type=whole_number, default=0, help=infos["n_ctx"].help)
    for flag, what in (("--cache-type-k", "keys"), ("--cache-type-v", "values")):
        kinds = ", ".join(CACHE_TYPES)
        parser.add_argument(flag, metavar="TYPE", default="f16", help=f"how {what} are kept: {kinds}")
    parser.add_argument("--slots", metavar="N", type=whole_number, default=None, help=infos["n_seq_max"].help)
    parser.add_argument(
        "--gpu-layers",
        metavar="N|auto",
        type=whole_number_or("auto"),
        default=None,
        help=infos["n_gpu_layers"].help,
    )
    parser.add_argument("--draft", metavar="PATH", help="a second model that proposes tokens")
    parser.add_argument(
        "--lora", metavar="PATH[=SCALE]", type=adapter_of, action="append", default=[], help="an adapter; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="print JSON Lines")


def run_fit(options: argparse.Namespace, paths: Paths) -> ExitCode:
    """Print what a model takes and whether there is room; whatever the answer, the exit code is 0.

    Raises:
        AppError, ModelsError, EngineError: there is no such model, or a setting is not legal.
    """
    settings = SettingsStore(paths.settings_file).load()[0]
    choice = choose_model(options.name or options.model, settings, paths)
    wish = _wish(options, settings, paths)
    engine, bandwidth, notice = _ask_engine(settings.read_bandwidth, paths, fake=options.fake_engine)
    offset = MemoryRecord.in_paths(paths).offset_bytes()
    room = room_of(engine, read_bandwidth=bandwidth, offset_bytes=offset)
    parts = [read_gguf_info(path) for path in parts_of(choice.info)[1:]]
    found = fit(choice.info, wish, room, parts=parts)
    notices = (*found.reasons, *_draft_notices(choice, wish), *([notice] if notice else []))
    if options.json:
        print_event("fit", **_as_event(choice, found, room, notices))
    else:
        _print(choice, found, room, notices)
    return ExitCode.DONE


def _wish(options: argparse.Namespace, settings: Settings, paths: Paths) -> Wish:
    slots = {"n_seq_max": options.slots} if options.slots is not None else {}
    params = ModelParams(  # says in one sentence what is not legal
        n_ctx=options.ctx,
        type_k=options.cache_type_k,
        type_v=options.cache_type_v,
        n_gpu_layers=options.gpu_layers,
        **slots,
    )
    draft = read_draft_file(choose_model(options.draft, settings, paths).path).info if options.draft else None
    adapter_bytes = sum(_adapter_info(Path(adapter.path)).weight_bytes for adapter in options.lora)
    return wish_of(params, draft=draft, adapter_bytes=adapter_bytes)


def _draft_notices(choice: ModelChoice, wish: Wish) -> tuple[str, ...]:
    """Return why the second model cannot draft, else what is to know of it."""
    if wish.draft is None:
        return ()
    target, draft = read_draft_file(choice.path), read_draft_file(wish.draft.path)
    refusal = target_reason(target.info) or draft_reason(target, draft)
    return (refusal.reason,) if refusal is not None else draft_notes(target, draft)


def _adapter_info(path: Path) -> GGUFInfo:
    try:
        return read_gguf_info(path)
    except OSError as error:
        raise UsageError(f"The adapter {path} cannot be read: {error.strerror}.", "Check its path.") from error


def _ask_engine(
    bandwidth: Mapping[str, Any], paths: Paths, *, fake: bool
) -> tuple[EngineDescription | None, Mapping[str, Any], str]:
    """Return what the engine says of the machine, its bandwidth, and a sentence where it says nothing.

    The bandwidth is measured, and remembered, where it is not known yet.
    """
    try:
        with ChatSession(ProcessClient(fake=fake)) as session:
            engine = session.describe_engine()
            if not bandwidth:
                speed = session.measure_machine()
                bandwidth = {str(speed.n_threads): speed.read_bandwidth}
                note_bandwidth(paths, speed.n_threads, speed.read_bandwidth)
            return engine, bandwidth, ""
    except EngineError as error:
        return None, bandwidth, f"Graphics devices are left out: {error.message}"


def _as_event(choice: ModelChoice, found: Fit, room: Room, notices: tuple[str, ...]) -> dict[str, Any]:
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    cache = found.cache
    return {
        "model": str(choice.path),
        **fields,
        "verdict": found.verdict.value,
        "cache": None,
        "kv_bytes": cache.keys + cache.values,
        "state_bytes": cache.state,
        "offset_bytes": room.offset_bytes,
        "reasons": notices,
    }


def _print(choice: ModelChoice, found: Fit, room: Room, notices: tuple[str, ...]) -> None:
    info = choice.info
    kind = " ".join(part for part in (info.architecture, info.type_name) if part)
    print(f"{safe_text(choice.label)} ({safe_text(kind)}), context of {found.n_ctx:,} tokens")
    rows = [
        ("weights", found.weight_bytes, ""),
        ("KV cache", found.cache.keys + found.cache.values, f"{found.type_k} keys, {found.type_v} values"),
        ("states", found.cache.state, "whatever the context"),
        ("compute buffers", found.compute_bytes, "about"),
        ("engine", found.program_bytes, "about"),
        ("draft model", found.draft_bytes, ""),
        ("adapters", found.adapter_bytes, ""),
        ("on graphics", -found.device_needed_bytes, f"{found.n_gpu_layers} layers"),
    ]
    for name, size, note in rows:
        if size:
            print(f"  {name:<18}{size / _MIB:>12,.0f} MiB{'  ' + note if note else ''}")
    print(f"  {'needed':<18}{_range(found):>12} MiB")
    print(f"  {'free':<18}{found.free_bytes / _MIB:>12,.0f} MiB")
    if found.device_free_bytes:
        print(f"  {'free on graphics':<18}{found.device_free_bytes / _MIB:>12,.0f} MiB")
    print(f"  {'verdict':<18}{_VERDICTS[found.verdict]}")
    print(f"  {'longest context':<18}{_longest(choice, found)}")
    print(f"  {'reads per token':<18}{found.active_bytes / _MIB:>12,.0f} MiB, and the cache of the context")
    print(f"  {'speed':<18}{_speed(found, room)}")
    for notice in notices:
        print(wrapped(f"  {safe_text(notice)}", indent="  "))


def _range(found: Fit) -> str:
    if found.least_needed_bytes == found.needed_bytes:
        return f"{found.needed_bytes / _MIB:,.0f}"
    return f"{found.least_needed_bytes / _MIB:,.0f} to {found.needed_bytes / _MIB:,.0f}"


def _longest(choice: ModelChoice, found: Fit) -> str:
    if found.largest_n_ctx is None:
        return "not known"
    if not found.largest_n_ctx:
        return "none fits"
    is_all = found.largest_n_ctx + 256 > choice.info.n_ctx_train > 0
    return f"{found.largest_n_ctx:,} tokens{', all it was trained for' if is_all else ''}"


def _speed(found: Fit, room: Room) -> str:
    if found.decode_rate is None or found.full_decode_rate is None:
        why = "the memory of a graphics device is not measured" if found.n_gpu_layers else "nothing is measured yet"
        return f"not known: {why}"
    return (
        f"at most {found.decode_rate:,.0f} tokens/s, {found.full_decode_rate:,.0f} with a full context, "
        f"as memory is read at {room.read_bandwidth / 1e9:.1f} GB/s"
    )
