"""The flags of `chat` become settings, or one sentence saying what is wrong."""

import argparse
from pathlib import Path

import pytest

from app.cli.arguments import ArgumentParser
from app.cli.chat_options import (
    Conversation,
    add_chat_arguments,
    conversations_of,
    model_params,
    parse_setting,
    sampling_params,
)
from app.errors import UsageError
from engine import Adapter, FlashAttention, InvalidParams, ModelParams, SamplingParams, param_infos


def parse(*arguments: str) -> argparse.Namespace:
    parser = ArgumentParser(prog="fireside chat")
    add_chat_arguments(parser)
    return parser.parse_args(arguments)


def test_no_flags_are_the_defaults() -> None:
    assert sampling_params(parse()) == SamplingParams()
    assert model_params(parse()) == ModelParams()


def test_flags_reach_the_request() -> None:
    options = parse(
        *("--temperature", "0", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--repeat-penalty", "1.1"),
        *("--seed", "0", "--max-tokens", "5", "--stop", "a", "--stop", "", "--stop", " ", "--set", "repeat_last_n=3"),
    )
    assert sampling_params(options) == SamplingParams(
        temperature=0.0,
        top_k=0,
        top_p=1.0,
        min_p=0.0,
        repeat_penalty=1.1,
        seed=0,
        max_tokens=5,
        stop=("a", " "),
        repeat_last_n=3,
    )


def test_every_setting_is_reached_by_set() -> None:
    for name, info in param_infos(SamplingParams).items():
        value = info.maximum if info.is_integer else info.minimum
        assert getattr(sampling_params(parse("--set", f"{name}={value:.10g}")), name) == value, name


def test_order_and_biases_reach_the_request() -> None:
    options = parse("--samplers", "min-p, top_k,temperature", "--set", "logit_bias=42:-5,7:1.5")
    assert sampling_params(options) == SamplingParams(
        samplers=("min_p", "top_k", "temperature"), logit_bias=((42, -5.0), (7, 1.5))
    )


@pytest.mark.parametrize("text", ["logit_bias=42", "logit_bias=x:1", "logit_bias=1:nan", "logit_bias=-1:0"])
def test_bias_that_is_no_bias_is_an_error_with_a_hint(text: str) -> None:
    with pytest.raises((UsageError, InvalidParams)) as caught:
        sampling_params(parse("--set", text))
    error = caught.value
    assert isinstance(error, UsageError | InvalidParams)
    assert error.message and error.hint


def test_flags_reach_the_model() -> None:
    options = parse(
        *("--ctx", "1024", "--threads", "2", "--gpu-layers", "3", "--flash-attn", "on"),
        *("--cache-type-k", "q8_0", "--cache-type-v", "q4_0"),
    )
    assert model_params(options) == ModelParams(
        n_ctx=1024, n_threads=2, n_gpu_layers=3, flash_attn=FlashAttention.ON, type_k="q8_0", type_v="q4_0"
    )
    assert model_params(parse("--gpu-layers", "auto")).n_gpu_layers is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("--temperature", "-1"),
        ("--top-p", "1.5"),
        ("--seed", "-1"),
        ("--seed", str(2**32)),
        ("--max-tokens", "0"),
        ("--repeat-penalty", "0"),
        ("--set", "top_k=-3"),
    ],
    ids="=".join,
)
def test_illegal_sampling_is_named(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidParams, match=arguments[0].strip("-").replace("-", "_").replace("set", "top_k")):
        sampling_params(parse(*arguments))


@pytest.mark.parametrize(
    "arguments",
    [("--ctx", "-1"), ("--cache-type-k", "q9"), ("--flash-attn", "off", "--cache-type-v", "q8_0")],
    ids=" ".join,
)
def test_illegal_loading_is_named(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidParams):
        model_params(parse(*arguments))


def test_device_and_experts_are_settings_of_the_model() -> None:
    params = model_params(parse("--device", "CUDA1", "--experts-on-cpu", "3", "--gpu-layers", "auto"))
    assert (params.device, params.experts_on_cpu, params.n_gpu_layers) == ("CUDA1", 3, None)
    with pytest.raises(InvalidParams, match="the device is the CPU"):
        model_params(parse("--device", "cpu", "--gpu-layers", "3"))


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("top_k=3", ("top_k", 3)),
        ("top-k = 3", ("top_k", 3)),
        ("temperature=0.5", ("temperature", 0.5)),
        ("seed=random", ("seed", None)),
        ("max_tokens=none", ("max_tokens", None)),
        ("max_tokens=no limit", ("max_tokens", None)),
    ],
)
def test_setting_is_read(text: str, setting: tuple[str, float | None]) -> None:
    assert parse_setting(text) == setting


@pytest.mark.parametrize("text", ["", "top_k", "=3", "nothing=3", "top_k=", "top_k=x", "temperature=0,5", "stop=a"])
def test_setting_that_is_none_is_an_error_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_setting(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "chats"),
    [
        ("a\nb\n", [("a", "b")]),
        ("a\r\nb\r\n\r\nc", [("a", "b"), ("c",)]),
        ("\n\na\n \n\nb", [("a",), ("b",)]),
        ("a\u2028b\nc\x0bd\n", [("a\u2028b", "c\x0bd")]),
        ("  indented\n", [("  indented",)]),
        ("\n \n", []),
        ("", []),
    ],
)
def test_turns_become_conversations(text: str, chats: list[tuple[str, ...]]) -> None:
    assert conversations_of(text) == [Conversation(turns) for turns in chats]


@pytest.mark.parametrize(
    ("text", "path", "scale"),
    [
        ("a.gguf", "a.gguf", 1.0),
        ("a.gguf=0.5", "a.gguf", 0.5),
        ("a.gguf=-2", "a.gguf", -2.0),
        ("a.gguf=0", "a.gguf", 0.0),
        ("dir=1/a b.gguf", "dir=1/a b.gguf", 1.0),
        ("dir=1/a.gguf=1e-1", "dir=1/a.gguf", 0.1),
        ("a=2=3", "a=2", 3.0),
        ("a.gguf=", "a.gguf=", 1.0),
        ("a.gguf=nan", "a.gguf=nan", 1.0),
        ("a.gguf=0,5", "a.gguf=0,5", 1.0),
        ("~/a.gguf=1", "~/a.gguf", 1.0),
    ],
)
def test_adapter_is_a_path_with_a_number_after_its_last_equals_sign(text: str, path: str, scale: float) -> None:
    assert parse("--lora", text).lora == [Adapter(path=str(Path(path).expanduser()), scale=scale)]


def test_scale_behind_a_file_has_to_be_a_number_and_a_file_with_an_equals_sign_is_one(tmp_path: Path) -> None:
    plain, odd = tmp_path / "a.gguf", tmp_path / "a=2"
    plain.touch()
    odd.touch()
    with pytest.raises(UsageError, match="'0,5' is no number"):
        parse("--lora", f"{plain}=0,5")
    assert parse("--lora", str(odd)).lora == [Adapter(path=str(odd), scale=1.0)]
    assert parse("--lora", f"{odd}=3").lora == [Adapter(path=str(odd), scale=3.0)]


def test_adapters_are_kept_in_their_order() -> None:
    assert [adapter.path for adapter in parse("--lora", "b", "--lora", "a=2").lora] == ["b", "a"]
    assert parse().lora == []


@pytest.mark.parametrize("text", ["", "=1"])
def test_adapter_without_a_path_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--lora"):
        parse("--lora", text)


def test_a_reply_is_reproducible_when_the_flag_says_so() -> None:
    assert sampling_params(parse("--reproducible")).reproducible
    assert not sampling_params(parse()).reproducible
