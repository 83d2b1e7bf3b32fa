"""`fireside doctor`: what this machine and this installation are, to find out why something does not work."""

import argparse
import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

import msgspec

from app import __version__
from app.cli.display import why_no_window
from app.cli.outcome import ExitCode, exit_code_of, print_event, show_error
from app.cli.session import ChatSession
from app.cli.terminal_text import safe_text
from app.known_models import KnownModels
from app.model_choice import choose_model
from app.paths import Paths
from app.settings import Settings
from engine import EngineDescription, EngineError, MachineSpeed, ModelParams, ProcessClient
from models import STARTER_INSTALL, STARTER_LABEL, STARTER_LICENCE, find_starter

_PACKAGES = ("llama-cpp-python", "PySide6-Essentials", "numpy", "msgspec", "prompt_toolkit")
_GIB, _MIB = 2**30, 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this command takes."""
    parser.add_argument("--json", action="store_true", help="print JSON Lines")


def run(options: argparse.Namespace, paths: Paths) -> ExitCode:
    """Look at everything and print it; an engine that does not start is reported, and then the exit code is 4.

    A model that is named is loaded too, and its cache types are measured.

    Raises:
        AppError, ModelsError: there is no such model, or it cannot chat.
    """
    failure: EngineError | None = None
    engine: EngineDescription | None = None
    speed: MachineSpeed | None = None
    model: dict[str, Any] | None = None
    path = _model_path(options, paths)
    try:
        with ChatSession(ProcessClient(fake=options.fake_engine)) as session:
            engine = session.describe_engine()
            speed = session.measure_machine()
            if path is not None:
                model = _measure(session, path, paths)
    except EngineError as error:
        failure = error
    findings = _examine(paths, engine, speed) | ({"model": model} if path is not None else {})
    if options.json:
        print_event("doctor", **findings, error=failure.message if failure else None)
    else:
        _print(findings)
    if failure is not None:
        show_error(failure, debug=options.debug)
        return ExitCode.ENGINE_DIED if engine is None else exit_code_of(failure)
    return ExitCode.DONE


def _model_path(options: argparse.Namespace, paths: Paths) -> str | None:
    name: str | None = getattr(options, "model", None)
    if name is None or options.fake_engine:
        return name
    return str(choose_model(name, Settings(), paths).path)


def _measure(session: ChatSession, path: str, paths: Paths) -> dict[str, Any] | None:
    for _ in session.load(path, ModelParams(), KnownModels.in_paths(paths)):
        pass
    if session.model is None:
        return None
    cache_types = [msgspec.to_builtins(row) for row in session.measure_cache_types()]
    return {**msgspec.to_builtins(session.model), "cache_types": cache_types}


def _examine(paths: Paths, engine: EngineDescription | None, speed: MachineSpeed | None) -> dict[str, Any]:
    return {
        "versions": _versions(engine),
        "processor": _processor(engine),
        "memory": _memory(),
        "speed": msgspec.to_builtins(speed) if speed else None,
        "devices": msgspec.to_builtins(engine.devices) if engine else [],
        "features": engine.features if engine else None,
        "paths": [_path(name, path) for name, path in _places(paths)],
        "starter": _starter(),
        "display": _display(),
    }


def _versions(engine: EngineDescription | None) -> dict[str, str | None]:
    versions: dict[str, str | None] = {"fireside": __version__, "python": platform.python_version()}
    versions["system"] = platform.platform()
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    versions["llama.cpp"] = engine.library if engine else None
    return versions


def _processor(engine: EngineDescription | None) -> dict[str, int | None]:
    import psutil

    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return {
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": os.cpu_count(),
        "usable_cores": usable,
        "default_threads": engine.default_threads if engine else None,
    }


def _memory() -> dict[str, int]:
    import psutil

    memory = psutil.virtual_memory()
    return {"total_bytes": memory.total, "available_bytes": memory.available}


def _places(paths: Paths) -> list[tuple[str, Path]]:
    return [
        ("data", paths.data_dir),
        ("settings", paths.settings_file),
        ("models", paths.models_dir),
        ("prompt cache", paths.prompt_cache_dir),
        ("logs", paths.logs_dir),
    ]


def _path(name: str, path: Path) -> dict[str, Any]:
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    is_writable = os.access(nearest, os.W_OK)
    return {"name": name, "path": str(path), "exists": path.exists(), "writable": is_writable}


def _starter() -> dict[str, str | None]:
    path = find_starter()
    return {"path": str(path) if path else None, "name": STARTER_LABEL, "licence": STARTER_LICENCE}


def _display() -> dict[str, Any]:
    reason, hint = why_no_window()
    return {"available": reason is None, "reason": reason, "hint": hint or None}


def _print(findings: dict[str, Any]) -> None:
    versions, processor, memory = findings["versions"], findings["processor"], findings["memory"]
    print("Versions")
    for name, version in versions.items():
        print(f"  {name:<20} {version or 'not there'}")
    print("Processor")
    for name, count in processor.items():
        print(f"  {name.replace('_', ' '):<20} {'unknown' if count is None else count}")
    print("Memory")
    print(f"  {'total':<20} {memory['total_bytes'] / _GIB:.1f} GiB")
    print(f"  {'available':<20} {memory['available_bytes'] / _GIB:.1f} GiB")
    if findings["speed"]:
        _print_speed(findings["speed"])
    print("Devices")
    for device in findings["devices"]:
        free = device["free_bytes"]
        shown = f", {free / _GIB:.1f} GiB free" if free is not None else ""
        print(f"  {device['name']:<20} {device['description']} ({device['kind']}{shown})")
    if findings["features"]:
        print(f"  {'built with':<20} {findings['features']}")
    print("Places")
    for place in findings["paths"]:
        print(f"  {place['name']:<20} {place['path']}{'' if place['writable'] else ' (cannot be written)'}")
    if findings.get("model"):
        _print_model(findings["model"])
    starter, display = findings["starter"], findings["display"]
    print("Starter model")
    where = starter["path"] or f"not installed: {STARTER_INSTALL}"
    print(f"  {starter['name']}, {starter['licence']}")
    print(f"  {where}")
    print("Window")
    print(f"  {'can be opened' if display['available'] else display['reason']}")
    if display["hint"]:
        print(f"  {display['hint']}")


def _print_speed(speed: dict[str, Any]) -> None:
    threads = "1 thread" if speed["n_threads"] == 1 else f"{speed['n_threads']} threads"
    print(f"  {'bandwidth':<20} {speed['read_bandwidth'] / 1e9:.1f} GB/s read by {threads}, as measured now")
    if speed["matmul_rate"]:
        print(f"  {'matrix product':<20} {speed['matmul_rate'] / 1e9:.0f} GFLOP/s")


def _print_model(model: dict[str, Any]) -> None:
    print("Model")
    layers = f", {model['n_gpu_layers']} of {model['n_layer'] + 1} layers" if model["n_gpu_layers"] else ""
    print(f"  {safe_text(model['name'])}, on {model['device']}{layers}")
    sizes = {"weights": "weight_bytes", "cache": "cache_bytes", "compute buffers": "compute_bytes"}
    for name, key in sizes.items():
        print(f"  {name:<20} {model[key] / _MIB:,.0f} MiB")
    for notice in model["notices"]:
        print(f"  {notice}")
    print(f"Cache types, for a context of {model['n_ctx']:,} tokens")
    print(f"  {'keys':<7}{'values':<8}{'bytes/token':>12}{'MiB':>9}{'prefill/s':>11}{'decode/s':>10}")
    for row in model["cache_types"]:
        begin = f"  {row['type_k']:<7}{row['type_v']:<8}{row['bytes_per_token']:>12,}{row['total_bytes'] / _MIB:>9,.0f}"
        if row["reason"]:
            print(f"{begin}  not measured: {row['reason']}")
        else:
            print(f"{begin}{row['prefill_rate']:>11,.0f}{row['decode_rate']:>10,.1f}")
