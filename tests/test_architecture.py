"""The shape of the program as tables, checked in the syntax trees and in fresh interpreters.

Where a table and the code disagree, one of them is wrong: change the table only together with the reason for it.
Tests and benchmarks are outside these rules.
"""

import ast
import functools
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("app", "engine", "models")
MAX_LINES = 400

# Library -> the only places that may import it, at whatever depth of a file.
SEAMS: dict[str, tuple[str, ...]] = {
    "llama_cpp": ("engine/backend_llama/", "models/quantize_worker.py"),
    "gguf": ("models/gguf_info.py", "models/gguf_write.py", "engine/importance.py"),
    "huggingface_hub": ("models/sources/huggingface.py",),
    "PySide6": ("app/desktop/",),
    "shiboken6": ("app/desktop/",),
    "sqlite3": ("app/store/",),
    "pypdf": ("app/pdf_text.py",),
    # Code that comes with data: a worker taken over by a hostile file must not run any in the front end.
    "pickle": (),
    "marshal": (),
    "shelve": (),
}
QT_MODULES = {"QtCore", "QtGui", "QtWidgets", "QtSvg", "QtNetwork", "QtPrintSupport"}

# Package -> what it must not import.
STRANGERS = {"engine": {"app", "models"}, "models": {"app", "engine"}}

# Every file and folder directly in engine/ belongs to one half.
CLIENT_HALF = {
    *("__init__", "errors", "text", "chat_rows", "params", "metrics", "messages"),
    *("client", "process", "core_budget", "remote", "free_memory"),
}
WORKER_HALF = {
    *("worker", "worker_loop", "failures", "core", "scheduler", "sequence", "kv_cache", "prompt_store", "read_ahead"),
    *("checkpoints", "overflow", "grammar", "measuring", "machine_speed"),
    *("idle_work", "preparing"),
    *("miss_cause", "peak_memory", "probe_child"),
    *("slot", "slot_room", "chat_saver", "prompt_cache", "reuse_cost", "cache_report", "cache_commands"),
    *("snapshot_file", "snapshot_folder", "folder_entry", "folder_key", "folder_lock", "message_places", "version"),
    *("prompt_making", "disk_thread", "response_cache", "response_file", "response_folder", "aborts", "sampled_rows"),
    *("usable_files", "coming_back", "opened_chat"),
    *("usable_files", "folder_files", "folder_limit", "forgotten_marks", "file_reads", "known_files"),
    *("speculative", "sampling", "threads", "processors", "thread_governor", "step_cost", "stopping", "detokenizer"),
    *("tokenizer_thread", "tokenizing"),
    *("chat_template", "chat_formats", "chat_forms", "template_renderer", "template_child", "special_texts"),
    *("text_tokens", "reasoning", "code_context", "reply_text", "scoring", "importance"),
    *("backend", "backend_llama", "backend_fake", "backend_fake_measures", "backend_fake_vocabulary"),
    *("backend_fake_samplers", "backend_fake_settings"),
}

# A widget gets data and gives signals; who talks to the engine, the disk or the network is above it.
WIDGET_STRANGERS = {"threading", "multiprocessing", "subprocess", "socket", "concurrent", "asyncio", "urllib", "http"}
CLIENT_NAMES = {"EngineClient", "ProcessClient", "InprocClient"}

# Importing this in a fresh interpreter must not load that.
COLD_IMPORTS: list[tuple[str, set[str]]] = [
    ("engine", {"numpy", "llama_cpp", "jinja2", "PySide6", "models", "app"}),
    ("engine.backend_llama.probing", {"numpy", "jinja2", "PySide6", "models", "app"}),  # a process for each load
    ("engine.template_child", {"numpy", "llama_cpp", "PySide6", "models", "app"}),
    ("models", {"PySide6", "gguf", "llama_cpp", "engine", "app"}),
    ("app", {"PySide6", "numpy", "llama_cpp"}),
    ("app.__main__", {"PySide6", "numpy", "llama_cpp"}),
]

FORBIDDEN_NAMES = re.compile(r"(^|_)(utils?|helpers?|common|managers?|misc)(_|$)")
FORBIDDEN_CLASSES = re.compile(r"(Utils?|Helpers?|Managers?)$")
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME")) + r")\b")

# Distribution in pyproject.toml -> module, where they differ.
MODULE_NAMES = {
    "llama-cpp-python": "llama_cpp",
    "markdown-it-py": "markdown_it",
    "PySide6-Essentials": "PySide6",
    "tomli-w": "tomli_w",
}


class Import(NamedTuple):
    """One imported module, and how.

    Attributes:
        module: dotted name, "engine.client" for `from engine.client import X` and for `import engine.client`.
        names: what is taken from it; empty for `import module`.
        is_deferred: inside a function, or only for the type checker.
    """

    module: str
    names: tuple[str, ...]
    line: int
    is_deferred: bool


def product_files(package: str = "") -> list[Path]:
    """Return the source files of one package, or of the product."""
    return sorted(path for name in ([package] if package else PACKAGES) for path in (ROOT / name).rglob("*.py"))


def relative(path: Path) -> str:
    """Return a path as the tables write it."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"), str(path))


@functools.cache
def imports_of(path: Path) -> list[Import]:
    """Return every import of a file."""
    return list(_walk(tree_of(path), path, is_deferred=False))


def _walk(node: ast.AST, path: Path, *, is_deferred: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, (), child.lineno, is_deferred)
        elif isinstance(child, ast.ImportFrom):
            names = tuple(alias.name for alias in child.names)
            yield Import(_absolute(child, path), names, child.lineno, is_deferred)
        elif (name := _imported_by_call(child)) is not None:
            yield Import(name, (), getattr(child, "lineno", 0), is_deferred)
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        is_for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        yield from _walk(child, path, is_deferred=is_deferred or is_function or is_for_types)


def _absolute(node: ast.ImportFrom, path: Path) -> str:
    if node.level == 0:
        return node.module or ""
    package = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
    return ".".join((*package, *(node.module or "").split("."))).rstrip(".")


def _imported_by_call(node: ast.AST) -> str | None:
    """Return the module that `importlib.import_module("...")` or `__import__("...")` names."""
    if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
        return None
    function = ast.unparse(node.func).rpartition(".")[2]
    value = node.args[0].value
    return value if function in ("import_module", "__import__") and isinstance(value, str) else None


def test_packages_are_there() -> None:
    assert [name for name in PACKAGES if not (ROOT / name / "__init__.py").is_file()] == []


def test_packaging_folder_does_not_hide_the_library_of_that_name() -> None:
    assert not (ROOT / "packaging" / "__init__.py").exists()


@pytest.mark.parametrize("library", SEAMS)
def test_library_is_imported_only_at_its_seam(library: str) -> None:
    wrong = [
        f"{relative(path)}:{found.line}"
        for path in product_files()
        for found in imports_of(path)
        if found.module.partition(".")[0] == library and not relative(path).startswith(SEAMS[library])
    ]
    assert wrong == [], f"{library} may be imported by {SEAMS[library] or 'nobody'}"


def test_only_the_allowed_modules_of_qt_are_used() -> None:
    used = {
        (f"{relative(path)}:{found.line}", module)
        for path in product_files("app")
        for found in imports_of(path)
        if found.module.partition(".")[0] == "PySide6"
        for module in ([found.module.split(".")[1]] if "." in found.module else found.names)
    }
    assert [place for place in sorted(used) if place[1] not in QT_MODULES] == []


@pytest.mark.parametrize("package", STRANGERS)
def test_libraries_do_not_know_each_other_or_the_application(package: str) -> None:
    wrong = [
        f"{relative(path)}:{found.line} imports {found.module}"
        for path in product_files(package)
        for found in imports_of(path)
        if found.module.partition(".")[0] in STRANGERS[package]
    ]
    assert wrong == []


def test_every_part_of_the_engine_belongs_to_one_half() -> None:
    parts = {
        path.stem for path in (ROOT / "engine").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert parts - CLIENT_HALF - WORKER_HALF == set()


def test_client_half_does_not_import_the_worker_half() -> None:
    wrong = [
        f"{relative(path)}:{found.line} imports {found.module}"
        for path in product_files("engine")
        if path.relative_to(ROOT / "engine").parts[0].removesuffix(".py") in CLIENT_HALF
        for found in imports_of(path)
        if not found.is_deferred and _engine_parts(found) & WORKER_HALF
    ]
    assert wrong == []


def _engine_parts(found: Import) -> set[str]:
    first, _, rest = found.module.partition(".")
    if first != "engine":
        return set()
    return {rest.partition(".")[0]} if rest else set(found.names)


def test_application_uses_only_public_names() -> None:
    wrong = []
    for path in product_files("app"):
        for found in imports_of(path):
            package, _, deeper = found.module.partition(".")
            if package not in ("engine", "models"):
                continue
            private = set(found.names) - set(_public_names(package))
            if deeper or private:
                wrong.append(f"{relative(path)}:{found.line} {found.module} {sorted(private)}")
    assert wrong == []


@functools.cache
def _public_names(package: str) -> list[str]:
    for node in tree_of(ROOT / package / "__init__.py").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def test_widgets_touch_no_client_socket_or_thread() -> None:
    wrong = [
        f"{relative(path)}:{found.line} {found.module} {found.names}"
        for path in product_files("app")
        if relative(path).startswith("app/desktop/widgets/")
        for found in imports_of(path)
        if found.module.partition(".")[0] in WIDGET_STRANGERS or CLIENT_NAMES & set(found.names)
    ]
    assert wrong == []


def test_every_imported_library_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    distributions = [re.split(r"[ <>=!~;\[]", text)[0] for text in project["dependencies"]]
    declared = {MODULE_NAMES.get(name, name) for name in distributions} | {"shiboken6"} | set(PACKAGES)
    wrong = [
        f"{relative(path)}:{found.line} {found.module}"
        for path in product_files()
        for found in imports_of(path)
        if found.module.partition(".")[0] not in declared | sys.stdlib_module_names
    ]
    assert wrong == []


def _cold_imports() -> list[tuple[str, set[str]]]:
    commands = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "app" / "cli").glob("*.py")]
    names = sorted(name.removesuffix(".__init__") for name in commands)
    return COLD_IMPORTS + [(name, {"PySide6", "numpy", "llama_cpp"}) for name in names]


def test_importing_a_part_loads_nothing_heavy() -> None:
    # All in parallel: each is a fresh interpreter, and they mostly wait for the disk.
    code = "import importlib, json, sys; importlib.import_module(sys.argv[1]); print(json.dumps(sorted(sys.modules)))"
    children = {
        name: subprocess.Popen(
            [sys.executable, "-c", code, name], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name, _ in _cold_imports()
    }
    outputs = {name: child.communicate(timeout=60) for name, child in children.items()}
    problems = []
    for name, unwanted in _cold_imports():
        output, errors = outputs[name]
        if children[name].returncode != 0:
            problems.append(f"import {name} fails: {errors.strip().splitlines()[-1]}")
        elif loaded := unwanted & set(json.loads(output)):
            problems.append(f"import {name} loads {sorted(loaded)}")
    assert problems == []


def test_modules_are_short() -> None:
    lengths = {relative(path): len(path.read_text("utf-8").splitlines()) for path in product_files()}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_files_and_classes_are_named_by_a_noun() -> None:
    wrong = [
        relative(path)
        for path in product_files()
        if any(FORBIDDEN_NAMES.search(part) for part in path.relative_to(ROOT).with_suffix("").parts)
    ]
    wrong += [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in product_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and FORBIDDEN_CLASSES.search(node.name)
    ]
    assert wrong == []


def test_every_module_says_what_it_owns() -> None:
    assert [relative(path) for path in product_files() if not ast.get_docstring(tree_of(path))] == []


def test_only_the_terminal_prints() -> None:
    wrong = [
        f"{relative(path)}:{node.lineno}"
        for path in product_files()
        if not relative(path).startswith("app/cli/")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "builtins.print")
    ]
    assert wrong == []


def test_nothing_is_marked_as_unfinished() -> None:
    files = [
        path
        for folder in (*PACKAGES, "tests", "benchmarks", "packaging", "docs")
        for path in (ROOT / folder).rglob("*")
    ]
    files += [path for path in ROOT.iterdir() if path.suffix in (".md", ".toml") or path.name == "Makefile"]
    wrong = [
        f"{relative(path)}:{number}"
        for path in files
        if path.suffix in (".py", ".md", ".toml", ".txt", ".qss", "") and path.is_file()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert wrong == []
