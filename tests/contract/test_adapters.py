"""LoRA adapters on the real backend: what they change, what they leave alone, and what is refused without harm."""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backend import AdapterKey, BatchPart, DecodeStatus
from engine.backend_llama import LlamaLoader, adapters
from engine.backend_llama.context import LlamaBackend
from engine.errors import AdapterMismatch, InvalidParams
from engine.messages import Adapter
from engine.params import ModelParams
from tests.support.adapters import STARTER, TINY, Target, write_adapter, write_tiny_pair
from tests.support.gguf_files import write_other_kinds, write_tiny_model
from tests.support.hostile_gguf import FOREIGN_FILES, IMPOSSIBLE_FILES, VERSION_FILES

ROOT = Path(__file__).resolve().parents[2]
_PARAMS = ModelParams(n_ctx=512, n_threads=1)
_TEXT = "The cache holds every token once, and each later question reads only what is new. "


def _load(path: Path) -> LlamaBackend:
    backend = LlamaLoader().load(str(path), _PARAMS, lambda share: True, is_known=True)  # without a trial
    assert backend is not None
    return backend


@pytest.fixture(scope="module")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("adapters") / "tiny.gguf")


@pytest.fixture(scope="module", params=["starter", "tiny"])
def backend(request: pytest.FixtureRequest, starter_path: Path, tiny_path: Path) -> Iterator[LlamaBackend]:
    loaded = _load(starter_path if request.param == "starter" else tiny_path)
    yield loaded
    loaded.close()


@pytest.fixture
def tiny(tiny_path: Path) -> Iterator[LlamaBackend]:
    loaded = _load(tiny_path)
    yield loaded
    loaded.close()


@pytest.fixture
def write(backend: LlamaBackend, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a random adapter for the model."""
    targets = STARTER if backend.description.n_layer == 30 else TINY

    def write(name: str, **settings: Any) -> Path:
        return write_adapter(tmp_path / name, targets, **settings)

    return write


def _use(backend: LlamaBackend, *adapters: tuple[Path, float]) -> AdapterKey:
    key = backend.load_adapters([Adapter(path=str(path), scale=scale) for path, scale in adapters])
    backend.use_adapters(key)
    return key


def _logits(backend: LlamaBackend, *adapters: tuple[Path, float]) -> np.ndarray:
    """Return the logits after one prompt, computed in one step."""
    _use(backend, *adapters)
    tokens = backend.vocabulary.tokenize(_TEXT, parse_special=False)
    backend.seq_rm(0, 0)
    assert backend.decode([BatchPart(0, 0, tokens, wants_logits=True)]) is DecodeStatus.DONE
    return backend.logits(0).copy()


def test_strength_0_equals_no_adapter_bit_for_bit(backend: LlamaBackend, write: Callable[..., Path]) -> None:
    path = write("a.gguf")
    plain = _logits(backend)
    assert np.array_equal(_logits(backend, (path, 0.0)), plain)
    assert np.array_equal(_logits(backend, (path, 1e-60)), plain)  # no number of 32 bits is that small
    assert np.array_equal(_logits(backend, (path, 0.75), (path, -0.75)), plain)


def test_without_its_adapter_a_model_computes_as_before(backend: LlamaBackend, write: Callable[..., Path]) -> None:
    plain = _logits(backend)
    changed = _logits(backend, (write("a.gguf"), 1.0))
    assert np.abs(changed - plain).max() > 0.05
    assert np.array_equal(_logits(backend), plain)


def test_each_switch_computes_with_the_adapters_of_its_key(backend: LlamaBackend, write: Callable[..., Path]) -> None:
    first, second = write("a.gguf", seed=1), write("b.gguf", seed=2)
    cases: list[tuple[tuple[Path, float], ...]] = [
        *[((first, 1.0),), ((second, 1.0),), ((first, 0.5),), ()],
        *[((first, 1.0), (second, 1.0)), ((first, 1.0), (second, -0.5))],
    ]
    expected = [_logits(backend, *case) for case in cases]
    assert all(np.abs(a - b).max() > 0.01 for n, a in enumerate(expected) for b in expected[:n])
    for _ in range(2):  # without a step in between, the last one counts
        for case in cases:
            _use(backend, *case)
    for case, values in zip(reversed(cases), reversed(expected), strict=True):
        assert np.array_equal(_logits(backend, *case), values)


def test_order_does_not_matter_and_scales_of_one_file_are_added(
    backend: LlamaBackend, write: Callable[..., Path]
) -> None:
    first, second = write("a.gguf", seed=1), write("b.gguf", seed=2)
    key = _use(backend, (first, 0.5), (second, 1.0))
    assert key == _use(backend, (second, 1.0), (first, 0.25), (first, 0.25))
    assert [scale for _, scale in key] == [0.5, 1.0]
    assert all(str(path) in name for path, (name, _) in zip((first, second), key, strict=True))


def test_small_scales_change_logits_in_proportion(tiny: LlamaBackend, tmp_path: Path) -> None:
    # In full precision: a quantised model rounds what goes into each weight, by more than such a change.
    path = write_adapter(tmp_path / "a.gguf", strength=0.02)
    plain = _logits(tiny)
    one, two, back = (_logits(tiny, (path, scale)) - plain for scale in (0.1, 0.2, -0.1))
    assert np.linalg.norm(two - 2 * one) < 0.2 * np.linalg.norm(two)
    assert np.linalg.norm(one + back) < 0.2 * np.linalg.norm(one)


def test_alpha_over_rank_is_part_of_the_strength(backend: LlamaBackend, write: Callable[..., Path]) -> None:
    plain, with_alpha = write("a.gguf"), write("b.gguf", alpha=8.0)
    assert np.array_equal(_logits(backend, (plain, 2.0)), _logits(backend, (with_alpha, 1.0)))


def test_half_precision_and_text_keys_are_accepted(backend: LlamaBackend, write: Callable[..., Path]) -> None:
    path = write("half ä日=1 #?%20.gguf", dtype=np.float16, keys={"general.name": "x" * 100_000})
    assert not np.array_equal(_logits(backend, (path, 1.0)), _logits(backend))


def test_replaced_file_is_another_adapter(tiny: LlamaBackend, tmp_path: Path) -> None:
    path = write_adapter(tmp_path / "a.gguf", seed=1)
    old_key, old = _use(tiny, (path, 1.0)), _logits(tiny, (path, 1.0))
    write_adapter(tmp_path / "b.gguf", seed=2)
    os.utime(tmp_path / "b.gguf", ns=(1, 1))
    (tmp_path / "b.gguf").replace(path)
    new_key, new = _use(tiny, (path, 1.0)), _logits(tiny, (path, 1.0))
    assert old_key != new_key
    assert not np.array_equal(old, new)
    tiny.use_adapters(old_key)  # a reply that began with it goes on with it
    assert np.array_equal(_logits_as_set(tiny), old)


def _logits_as_set(backend: LlamaBackend) -> np.ndarray:
    tokens = backend.vocabulary.tokenize(_TEXT, parse_special=False)
    backend.seq_rm(0, 0)
    backend.decode([BatchPart(0, 0, tokens, wants_logits=True)])
    return backend.logits(0).copy()


def test_many_adapters_are_unloaded_and_come_back(
    tiny: LlamaBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "_MAX_KEPT", 3)
    paths = [write_adapter(tmp_path / f"{n}.gguf", seed=n) for n in range(6)]
    first_key, first = _use(tiny, (paths[0], 1.0)), _logits_as_set(tiny)
    for path in paths:
        _logits(tiny, (path, 1.0))
    assert len(tiny._adapters._kept) == 3
    tiny.use_adapters(first_key)
    assert np.array_equal(_logits_as_set(tiny), first)
    tiny.use_adapters(())
    paths[1].unlink()
    gone = first_key[0][0].replace("0.gguf", "1.gguf")
    with pytest.raises(AdapterMismatch):
        tiny.use_adapters(((gone, 1.0),))


@pytest.mark.parametrize("scale", [math.nan, math.inf, -math.inf, 100.5, -1e30], ids=str)
def test_scale_that_is_absurd_is_refused(tiny: LlamaBackend, tmp_path: Path, scale: float) -> None:
    with pytest.raises(InvalidParams) as caught:
        _use(tiny, (write_adapter(tmp_path / "a.gguf"), scale))
    assert caught.value.message and caught.value.hint


def test_scales_that_are_absurd_together_are_refused(tiny: LlamaBackend, tmp_path: Path) -> None:
    path = write_adapter(tmp_path / "a.gguf")
    with pytest.raises(InvalidParams):
        _use(tiny, (path, 60.0), (path, 60.0))
    with pytest.raises(InvalidParams):
        _use(tiny, *[(path, 0.1)] * 9)


def _pair(
    name: str, shape_a: tuple[int, ...], shape_b: tuple[int, ...], dtype: Any = np.float32, value: float = 1.0
) -> dict[str, Any]:
    return {f"{name}.lora_a": np.ones(shape_a, dtype), f"{name}.lora_b": np.full(shape_b, value, dtype)}


_Q, _K = "blk.0.attn_q.weight", "blk.0.attn_k.weight"
_NUM_TOKENS = 274
# What the message must say, and what the adapter is made of. Those marked * would end the process.
_MISFITS: dict[str, tuple[str, dict[str, Any]]] = {
    "other architecture": ("`gemma3`; the model is `llama`", {"arch": "gemma3"}),
    "other width": ("does not fit this model: .*incorrect shape", {"targets": [Target(_Q, 32, 64)]}),
    "more layers": ("does not exist in base model", {"targets": [*TINY, Target("blk.7.attn_q.weight", 64, 64)]}),
    "half a pair": ("missing one component", {"extra": {"blk.0.attn_k.weight.lora_a": np.ones((4, 64), np.float32)}}),
    "not transposed": ("does not fit", {"targets": [], "extra": _pair(_Q, (4, 64), (64, 8))}),
    "whole weight": ("holds the weight", {"extra": {_Q: np.ones((64, 64), np.float32)}}),
    "no weights": ("changes nothing", {"targets": []}),
    "no adapter": ("is not an adapter", {"keys": {"general.type": "model"}}),
    "no type": ("is not an adapter", {"keys": {"general.type": None}}),
    "* type is a number": ("is not an adapter", {"keys": {"general.type": 3}}),
    "* type is a list": ("another kind than LoRA", {"keys": {"adapter.type": ["lora", "lora"]}}),
    "control vector": ("another kind than LoRA", {"keys": {"adapter.type": "cvec"}}),
    "activated": ("aLoRA", {"keys": {"adapter.alora.invocation_tokens": [1, 2]}}),
    "* alpha is a whole number": ("alpha", {"keys": {"adapter.lora.alpha": 3}}),
    "alpha is no number": ("alpha", {"alpha": math.nan}),
    "alpha is infinite": ("alpha", {"alpha": math.inf}),
    "weights are no numbers": ("not all numbers", {"strength": math.nan}),
    "weights are infinite": ("not all numbers", {"extra": _pair(_K, (4, 64), (32, 4), np.float16, math.inf)}),
    "weights are absurdly large": ("absurdly large", {"strength": 1e20}),
    "* three dimensions": ("shape of its own", {"targets": [], "extra": _pair(_Q, (3, 4, 64), (3, 64, 4))}),
    "* whole numbers": ("in a type", {"dtype": np.int32}),
    "* double precision": ("in a type", {"dtype": np.float64}),
    "* token embedding": (
        "token embedding",
        {"targets": [], "extra": _pair("token_embd.weight", (_NUM_TOKENS, 4), (64, 8))},
    ),
}


@pytest.mark.parametrize("case", _MISFITS)
def test_adapter_that_does_not_fit_is_refused_with_its_reason(tiny: LlamaBackend, tmp_path: Path, case: str) -> None:
    expected, settings = _MISFITS[case]
    before = _logits(tiny)
    with pytest.raises(AdapterMismatch, match=expected) as caught:
        _use(tiny, (write_adapter(tmp_path / "a.gguf", settings.pop("targets", TINY), **settings), 1.0))
    assert caught.value.message.endswith(".") and caught.value.hint
    assert "hint" not in caught.value.message
    assert np.array_equal(_logits_as_set(tiny), before)


def test_token_embedding_of_a_model_whose_output_shares_it_is_refused(starter_path: Path, tmp_path: Path) -> None:
    extra = _pair("token_embd.weight", (49152, 4), (576, 4))
    backend = _load(starter_path)
    try:
        with pytest.raises(AdapterMismatch, match="token embedding"):
            _use(backend, (write_adapter(tmp_path / "a.gguf", [], extra=extra), 1.0))
    finally:
        backend.close()


def test_file_that_is_no_adapter_is_refused(tiny: LlamaBackend, tiny_path: Path, tmp_path: Path) -> None:
    hostile = [*IMPOSSIBLE_FILES.values(), *(data for _, data in (*FOREIGN_FILES.values(), *VERSION_FILES.values()))]
    paths = [tiny_path, *write_other_kinds(tmp_path).values(), tmp_path, tmp_path / "missing.gguf"]
    for number, data in enumerate(hostile):
        paths.append(tmp_path / f"{number}.gguf")
        paths[-1].write_bytes(data)
    names = [*map(str, paths), "", "a\0b", "x" * 5000]
    for name in names:
        with pytest.raises(AdapterMismatch) as caught:
            tiny.load_adapters([Adapter(path=name)])
        assert caught.value.message and caught.value.hint, name
    assert _logits(tiny).size == _NUM_TOKENS


def test_truncated_adapter_is_refused_at_every_length(tiny: LlamaBackend, tmp_path: Path) -> None:
    data = write_adapter(tmp_path / "a.gguf").read_bytes()
    path = tmp_path / "cut.gguf"
    for length in (*range(0, 400, 7), *range(400, len(data), 331), len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(AdapterMismatch):
            _use(tiny, (path, 1.0))


_MUTATIONS = """
import random, struct, sys
from pathlib import Path
from engine.backend import BatchPart
from engine.backend_llama import LlamaLoader
from engine.errors import AdapterMismatch
from engine.messages import Adapter
from engine.params import ModelParams

model, good, target = map(Path, sys.argv[1:])
params = ModelParams(n_ctx=256, n_threads=1)
backend = LlamaLoader().load(str(model), params, lambda share: True, is_known=True)
data = good.read_bytes()
num_refused = 0
for seed in range(250):
    choose = random.Random(seed)
    mutated = bytearray(data)
    for _ in range(choose.choice((1, 1, 2, 4))):
        at = choose.randrange(1000)
        number = choose.choice((0, 1, 2, 7, 8, 9, 30, 2**31, 2**63, 2**64 - 1))
        change = choose.choice((bytes([choose.randrange(256)]), struct.pack("<Q", number), b""))
        mutated[at : at + max(len(change), 1)] = change
    target.write_bytes(mutated)
    try:
        backend.use_adapters(backend.load_adapters([Adapter(path=str(target))]))
        backend.decode([BatchPart(0, 0, (3, 4, 5), wants_logits=True)])
        backend.seq_rm(0, 0)
    except AdapterMismatch:
        num_refused += 1
backend.close()
print(num_refused)
"""


def test_mutated_adapters_never_end_the_process(tmp_path: Path) -> None:
    model, good = write_tiny_pair(tmp_path)
    arguments = [sys.executable, "-c", _MUTATIONS, *map(str, (model, good, tmp_path / "mutated.gguf"))]
    environment = os.environ | {"GGML_NO_BACKTRACE": "1"}
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert 150 < int(done.stdout) < 250
