"""Writes docs/parameters.md from the declarations of the settings. Run it in the environment.

python packaging/parameters.py            writes the file
python packaging/parameters.py --check    fails where the file is not what would be written
"""

import argparse
import enum
import sys
from pathlib import Path

from engine import (
    CACHE_TYPES,
    SAMPLER_NAMES,
    CacheParams,
    LoadMode,
    ModelParams,
    ParamInfo,
    RopeScaling,
    SamplingParams,
    SplitMode,
    param_infos,
)

TARGET = Path(__file__).resolve().parent.parent / "docs" / "parameters.md"
HEAD = """# Settings

Written by `make parameters` from the declarations in `engine/params`.

## Of a reply

In the window these are in the panel beside the chat, in the terminal they are reached by `--set NAME=VALUE`; the common
ones have a flag of their own. Every setting at its "off" value leaves its step out.

| name | label | values | default | what it does |
| --- | --- | --- | --- | --- |
"""
ORDER = """
Stop strings (`--stop TEXT`) end a reply before they would be shown. `--set logit_bias=TOKEN:BIAS,...` adds to the
logits of single tokens.

The steps are taken in this order, or in that of `--samplers A,B,C`, which leaves out what it does not name: {order}.
Temperature 0 takes the likeliest token whatever else is set, after penalties and biases. Mirostat takes the place of
all filters.

## Of a loaded model

| name | label | values | default | what it does |
| --- | --- | --- | --- | --- |
"""
TAIL = """
Flash attention is `auto`, `on` or `off`. The keys and values of the cache (`--cache-type-k`, `--cache-type-v`) are
kept as one of {types}; quantised values need flash attention.

The device (`--device`) is one of those that `fireside doctor` lists, or `CPU`; empty chooses. With several graphics
processors the split mode is {splits}. The load mode is {loads}: `mmap` leaves the weights
in the file, `read` copies them, `direct` copies them past the system's file cache. RoPE scaling is {scalings};
`auto` is what the file says.

## Of the prompt cache

What is kept of prompts beside the context; `--no-cache` switches all of it off. See [cache.md](cache.md).

| name | label | values | default | what it does |
| --- | --- | --- | --- | --- |
"""


def document() -> str:
    """Return the text of docs/parameters.md."""
    replies = "".join(_row(info) for info in param_infos(SamplingParams).values())
    kept = "".join(_row(info) for info in param_infos(CacheParams).values())
    models = "".join(_row(info) for info in param_infos(ModelParams).values())
    order = ", ".join(f"`{name}`" for name in SAMPLER_NAMES)
    types = ", ".join(f"`{name}`" for name in CACHE_TYPES)
    return (
        HEAD
        + replies
        + ORDER.format(order=order)
        + models
        + TAIL.format(types=types, splits=_choices(SplitMode), loads=_choices(LoadMode), scalings=_choices(RopeScaling))
        + kept
    )


def _choices(kind: type[enum.Enum]) -> str:
    values = [f"`{choice.value}`" for choice in kind]
    return f"{', '.join(values[:-1])} or {values[-1]}"


def _row(info: ParamInfo) -> str:
    values = f"{_number(info.minimum)} to {_number(info.maximum)}"
    if info.none_label is not None:
        values += f", or {info.none_label}"
    default = info.none_label if info.default is None else _number(info.default)
    return f"| `{info.name}` | {info.label} | {values} | {default} | {info.help} |\n"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def main() -> int:
    """Write or check the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        if TARGET.read_text(encoding="utf-8") == document():
            return 0
        print("docs/parameters.md is out of date: run `make parameters`", file=sys.stderr)
        return 1
    TARGET.write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
