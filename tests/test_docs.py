"""What the documents say is there, is there: files, make targets, links, messages, licences."""

import os
import re
import subprocess
import sys
import tomllib
import typing
from pathlib import Path

import pytest

import engine

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    "README.md",
    "CHANGELOG.md",
    "THIRD_PARTY.md",
    "packaging/README.md",
    "docs/architecture.md",
    "docs/comparing.md",
    "docs/cache.md",
    "docs/documents.md",
    "docs/extending.md",
    "docs/measuring.md",
    "docs/models.md",
    "docs/parameters.md",
    "docs/quantising.md",
    "docs/speculation.md",
    "docs/store.md",
    "docs/window.md",
]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TOP_NAMES = ("app", "engine", "models", "tests", "docs", "packaging", "benchmarks", ".ci")
EACH_DOCUMENT = pytest.mark.parametrize("document", DOCUMENTS)


def text_of(document: str) -> str:
    """Return the text of a document."""
    return (ROOT / document).read_text("utf-8")


def code_spans(text: str) -> list[str]:
    """Return what stands between single backticks."""
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


@EACH_DOCUMENT
def test_every_path_named_exists(document: str) -> None:
    # "<name>" stands for what the reader fills in, and a module can be named with something of its own after it.
    spans = [span for span in code_spans(text_of(document)) if re.fullmatch(r"[\w.\-]+(/[\w.\-]+)*/?", span)]
    paths = [span for span in spans if "/" in span and span.split("/")[0] in TOP_NAMES]
    paths += [span for span in spans if span in ("Makefile", "pyproject.toml", "LICENSE") or span.endswith(".md")]
    assert [
        path for path in paths if not (ROOT / path).exists() and not (ROOT / document).parent.joinpath(path).exists()
    ] == []


@EACH_DOCUMENT
def test_every_make_target_named_exists(document: str) -> None:
    # In code only: the word is also a verb.
    text = text_of(document)
    code = "\n".join([*code_spans(text), *FENCE.findall(text)])
    named = set(re.findall(r"^\s*make ([a-z][a-z-]*)", code, re.MULTILINE))
    targets = set(re.findall(r"^([a-z][a-z-]*):", text_of("Makefile"), re.MULTILINE))
    assert named - targets == set()


@EACH_DOCUMENT
def test_every_link_into_the_tree_resolves(document: str) -> None:
    text = FENCE.sub("", text_of(document))
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    inner = [target.partition("#")[0] for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in inner if target and not (ROOT / document).parent.joinpath(target).exists()] == []


@EACH_DOCUMENT
def test_every_heading_linked_to_exists(document: str) -> None:
    text = FENCE.sub("", text_of(document))
    anchors = {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)\s]+)\)", text)) - anchors == set()


def test_readme_names_every_target_a_person_needs() -> None:
    readme = text_of("README.md")
    assert [name for name in ("run", "test", "check") if f"make {name}" not in readme] == []


def test_readme_and_the_check_ask_for_the_same_system_packages() -> None:
    source = text_of("packaging/check_system.py")
    needed = set(re.findall(r'"lib[\w.+-]+": "([\w.-]+)"', source)) | {"python3-venv", "gcc", "g++", "make"}
    line = next(line for line in text_of("README.md").splitlines() if "apt-get install" in line)
    assert needed - set(line.split()) == set()


def test_readme_names_keys_and_options_that_are_there() -> None:
    readme = text_of("README.md")
    keys = {key for row in re.findall(r"^\| ([^|]+) \| [^|]+ \|$", readme, re.MULTILINE) for key in row.split(", ")}
    keys = {key.replace("Enter", "Return") for key in keys if "+" in key or key == "Esc"}
    window = "".join(path.read_text("utf-8") for path in (ROOT / "app" / "desktop").rglob("*.py"))
    assert {key for key in keys if f'"{key}"' not in window} == set()
    examples = "\n".join(line for fence in FENCE.findall(readme) for line in fence.splitlines() if "fireside" in line)
    helps = [
        subprocess.run(
            [sys.executable, "-m", "app", *command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for command in (
            *([], ["chat"], ["doctor"], ["bench"], ["compare"], ["quantize"]),
            *(["models", "scan"], ["models", "inspect"], ["models", "fit"]),
        )
    ]
    known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", "".join(each.stdout for each in helps)))
    flags = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", examples))
    assert flags
    assert flags - known == set()


def test_changelog_is_kept() -> None:
    changelog = text_of("CHANGELOG.md")
    assert re.search(r"^## \[Unreleased\]$", changelog, re.MULTILINE)
    headings = set(re.findall(r"^### (.+)$", changelog, re.MULTILINE))
    assert headings <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_third_party_lists_what_the_project_asks_for() -> None:
    rows = dict(re.findall(r"^\| ([\w-]+) \| ([^|]+) \|", text_of("THIRD_PARTY.md"), re.MULTILINE))
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    wrong = []
    for dependency in project["dependencies"]:
        parts = re.match(r"([\w-]+)([^;]*)", dependency)
        assert parts is not None
        bounds = [bound.strip() for bound in parts[2].split(",")]
        if not all(bound in rows.get(parts[1], "") for bound in bounds):
            wrong.append(dependency)
    assert wrong == [], "run `make third-party`"


def test_architecture_names_every_message() -> None:
    described = set(code_spans(text_of("docs/architecture.md")))
    messages = [kind.__name__ for kind in (*typing.get_args(engine.Command), *typing.get_args(engine.Event))]
    assert [name for name in messages if name not in described] == []


def test_architecture_names_every_part_of_the_engine() -> None:
    described = code_spans(text_of("docs/architecture.md"))
    parts = [
        path.stem for path in (ROOT / "engine").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    wanted = [part for part in parts if part != "__init__"]
    assert [part for part in wanted if f"{part}.py" not in described and f"{part}/" not in described] == []


def test_parameters_are_described_as_they_are_declared() -> None:
    command = [sys.executable, str(ROOT / "packaging" / "parameters.py"), "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def test_documents_speak_of_the_project_alone() -> None:
    # Places that exist on one machine only, and hosts that packages happen to come from.
    foreign = re.compile(r"/(root|tmp|home|work)/|pythonhosted|//pypi\.|deb\.debian|registry\.npmjs")
    wrong = [
        f"{document}: {line}"
        for document in DOCUMENTS
        for line in text_of(document).splitlines()
        if foreign.search(line)
    ]
    assert wrong == []
