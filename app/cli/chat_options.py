"""The flags of `fireside chat`, and the settings of model and request that they make."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from app.cache_limits import cache_params
from app.cli.arguments import number, whole_number, whole_number_or
from app.cli.streams import read_text_file
from app.errors import UsageError
from app.settings import Settings
from engine import (
    CACHE_TYPES,
    SAMPLER_NAMES,
    Adapter,
    CacheParams,
    FlashAttention,
    ModelParams,
    SamplingParams,
    param_infos,
)

# Flag -> field, where a setting has a flag of its own; all others are reached by --set.
_SAMPLING_FLAGS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed", "max_tokens")


def add_chat_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `chat` takes."""
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to ask; without it, standard input")
    talking = parser.add_argument_group("talking")
    talking.add_argument("--system", metavar="TEXT", help="the system prompt")
    talking.add_argument(
        "--chat-format",
        metavar="NAME",
        help="how a chat becomes a prompt: `file`, a known format such as ChatML, or `completion`; kept for the model",
    )
    talking.add_argument(
        "--document",
        metavar="FILE",
        action="append",
        default=[],
        help="a text, Markdown, code or PDF file that stands before the first question; repeatable",
    )
    talking.add_argument(
        "--prepare",
        action="store_true",
        help="read documents and system prompt ahead of the question and keep them for later chats that begin so",
    )
    talking.add_argument("--turns", metavar="FILE", help="one user message a line; a blank line starts another chat")
    talking.add_argument("--save", action="store_true", help="keep the chat among those of the window")
    talking.add_argument("--stop", metavar="TEXT", action="append", default=[], help="end the reply here; repeatable")
    talking.add_argument("--json", action="store_true", help="print JSON Lines")
    _add_sampling(parser.add_argument_group("sampling"))
    _add_loading(parser.add_argument_group("loading"))
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="read every prompt from its beginning, and neither keep chats in memory nor on disk",
    )
    parser.add_argument(
        "--response-cache",
        action="store_true",
        help="keep whole replies, and give them again at once to just the same request: for temperature 0 or a fixed "
        "--seed; in the chat /again asks anew",
    )


def _add_sampling(group: argparse._ArgumentGroup) -> None:
    infos = param_infos(SamplingParams)
    for name in _SAMPLING_FLAGS:
        info = infos[name]
        group.add_argument(
            f"--{name.replace('_', '-')}",
            metavar="N",
            type=whole_number if info.is_integer else number,
            help=info.help.replace("%", "%%"),
        )
    group.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help=f"any of {', '.join(infos)}, and logit_bias=TOKEN:BIAS,...; repeatable",
    )
    group.add_argument(
        "--samplers", metavar="A,B,C", help=f"the steps to take, in this order: {', '.join(SAMPLER_NAMES)}"
    )
    group.add_argument(
        "--reproducible",
        action="store_true",
        help="compute the reply alone, with fixed threads and an empty cache: the same seed, the same text",
    )
    group.add_argument("--grammar", metavar="FILE", help="a GBNF grammar that the reply has to follow")
    group.add_argument("--json-schema", metavar="FILE", help="a JSON schema that the reply, JSON then, has to follow")


def _add_loading(group: argparse._ArgumentGroup) -> None:
    infos = param_infos(ModelParams)
    group.add_argument("--ctx", metavar="N", type=whole_number, help=infos["n_ctx"].help)
    group.add_argument("--threads", metavar="N", type=whole_number, help=infos["n_threads"].help)
    group.add_argument(
        "--gpu-layers",
        metavar="N|auto",
        type=whole_number_or("auto"),
        default=argparse.SUPPRESS,
        help=infos["n_gpu_layers"].help,
    )
    group.add_argument(
        "--device", metavar="NAME", help="the device that computes, as `fireside doctor` lists it, or CPU"
    )
    group.add_argument("--experts-on-cpu", metavar="N", type=whole_number, help=infos["experts_on_cpu"].help)
    group.add_argument(
        "--flash-attn",
        choices=[choice.value for choice in FlashAttention],
        help="flash attention, which quantised values need; auto uses it where it can be used",
    )
    for name, what in (("--cache-type-k", "keys"), ("--cache-type-v", "values")):
        group.add_argument(name, metavar="TYPE", help=f"how {what} are kept: {', '.join(CACHE_TYPES)}")
    group.add_argument(
        "--lora",
        metavar="PATH|NAME[=SCALE]",
        type=adapter_of,
        action="append",
        default=[],
        help="a LoRA adapter in GGUF format, or the name of one beside the model or in the folder of models, and its "
        "strength, 1 without SCALE; repeatable",
    )


def adapter_of(text: str) -> Adapter:
    """Return the adapter in `text`, written PATH or PATH=SCALE; an `=` may be part of the path.

    Raises:
        ArgumentTypeError: there is no path, or the scale behind that of a file is no number.
    """
    path, scale = text, 1.0
    before, equals, after = text.rpartition("=")
    if equals and not _is_file(text):
        try:
            path, scale = before, number(after)
        except argparse.ArgumentTypeError as error:
            if _is_file(before):
                raise argparse.ArgumentTypeError(f"the scale in {text!r} is wrong: {error}") from error
            path = text
    if not path:
        raise argparse.ArgumentTypeError(f"{text!r} names no file")
    return Adapter(path=str(Path(path).expanduser()), scale=scale)


def _is_file(name: str) -> bool:
    try:
        return Path(name).expanduser().is_file()
    except (OSError, ValueError, RuntimeError):  # no such user, a NUL byte, a name too long
        return False


def model_params(options: argparse.Namespace) -> ModelParams:
    """Return the settings to load a model with.

    Raises:
        InvalidParams: one is not legal.
    """
    given = {
        "n_ctx": options.ctx,
        "n_threads": options.threads,
        "flash_attn": FlashAttention(options.flash_attn) if options.flash_attn else None,
        "device": options.device,
        "experts_on_cpu": options.experts_on_cpu,
        "type_k": options.cache_type_k,
        "type_v": options.cache_type_v,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    if "gpu_layers" in options:
        chosen["n_gpu_layers"] = options.gpu_layers
    return ModelParams(**chosen)


def chat_cache(options: argparse.Namespace, settings: Settings, folder: Path) -> CacheParams:
    """Return what is kept of prompts and replies: what the user allows the window.

    Args:
        folder: where snapshots are written.
    """
    if options.no_cache:
        return CacheParams(ram_mib=0, reuse=False)
    if options.response_cache:
        settings = dataclasses.replace(settings, response_cache=True)
    return cache_params(settings, str(folder))


def sampling_params(options: argparse.Namespace) -> SamplingParams:
    """Return the settings of a request.

    Raises:
        InvalidParams: one is not legal.
        UsageError: a --set is not of the form NAME=VALUE, or names nothing; or a file cannot be read.
    """
    chosen: dict[str, Any] = {name: value for name in _SAMPLING_FLAGS if (value := getattr(options, name)) is not None}
    if options.samplers is not None:
        names = (name.strip().replace("-", "_") for name in options.samplers.split(","))
        chosen["samplers"] = tuple(name for name in names if name)
    for text in options.set:
        name, value = parse_setting(text)
        chosen[name] = value
    if options.reproducible:
        chosen["reproducible"] = True
    for name in ("grammar", "json_schema"):
        if (file := getattr(options, name)) is not None:
            chosen[name] = read_text_file(file)
    return SamplingParams(**chosen, stop=tuple(options.stop))


def parse_setting(text: str) -> tuple[str, Any]:
    """Return name and value of one sampling setting, written NAME=VALUE.

    Raises:
        UsageError: it is not of that form, or names nothing.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    infos = param_infos(SamplingParams)
    key = name.replace("-", "_")
    if key == "logit_bias" and equals:
        return key, _biases(value)
    if not equals or key not in infos:
        raise UsageError(
            f"{text!r} names no setting." if equals else f"{text!r} is not of the form NAME=VALUE.",
            f"The settings are {', '.join(infos)}.",
        )
    info = infos[key]
    if info.none_label is not None and value.lower() in (info.none_label, "none"):
        return key, None
    try:
        return key, whole_number(value) if info.is_integer else number(value)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"The value of {key} is wrong: {error}.", f"Write it as {key}={info.default or 1}.") from error


def setting_text(sampling: SamplingParams, name: str) -> str:
    """Return the value of a sampling setting as a person writes it."""
    value = getattr(sampling, name)
    if isinstance(value, tuple):
        return ",".join(f"{token}:{bias:g}" for token, bias in value) or "none"
    if value is None:
        return param_infos(SamplingParams)[name].none_label or "none"
    return str(value) if isinstance(value, int) else f"{value:g}"


def _biases(text: str) -> tuple[tuple[int, float], ...]:
    pairs = (pair.partition(":") for pair in text.split(",") if pair.strip())
    try:
        return tuple((whole_number(token), number(bias)) for token, _, bias in pairs)
    except argparse.ArgumentTypeError as error:
        raise UsageError(
            f"The value of logit_bias is wrong: {error}.", "Write it as logit_bias=42:-5,7:1.5."
        ) from error


@dataclasses.dataclass(frozen=True)
class Conversation:
    """The user's messages of one chat, in turn."""

    turns: tuple[str, ...]


def conversations_of(text: str) -> list[Conversation]:
    """Return the chats in a file of turns: one message a line, a blank line between chats."""
    conversations: list[Conversation] = []
    turns: list[str] = []
    # Not splitlines(): U+2028 and its like are characters of a message.
    for line in [*text.replace("\r\n", "\n").split("\n"), ""]:
        if line.strip():
            turns.append(line)
        elif turns:
            conversations.append(Conversation(tuple(turns)))
            turns = []
    return conversations
