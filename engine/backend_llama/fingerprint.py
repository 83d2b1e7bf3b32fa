"""What says that a model file and a context are the ones a snapshot was made with; llama.cpp asks neither."""

import hashlib
import importlib.metadata
import json
from pathlib import Path
from typing import Any

from engine.backend import StateKeys
from engine.backend_llama import library as native
from engine.backend_llama.layer_weights import model_parts
from engine.backend_llama.probing import meta
from engine.messages import ModelDescription
from engine.params import ModelParams

_HEAD_BYTES = 256 * 1024  # most of a header, but for a vocabulary
_SAMPLE_BYTES, _NUM_SAMPLES = 4096, 64


def state_keys(path: str, params: ModelParams, description: ModelDescription, model: Any) -> StateKeys:
    """Return what snapshots of a loaded model's sequences depend on.

    Args:
        model: pointer to it.
        params: as asked for; the cache types in effect are those of `description`.
    """
    settings = {
        "architecture": description.architecture,
        "n_layer": description.n_layer,
        "type_k": description.type_k,
        "type_v": description.type_v,
        "flash_attn": params.flash_attn.value,
        "rope": (params.rope_scaling.value, params.rope_freq_base, params.rope_freq_scale, params.yarn_orig_ctx),
        "is_long": description.n_ctx > _original_context(model, description),  # LongRoPE turns by other factors then
        "device": description.device,
        "unified": True,
        "binding": importlib.metadata.version("llama-cpp-python"),
        "library": native.library().llama_version().decode(),
    }
    return StateKeys(model_fingerprint(path), json.dumps(settings, sort_keys=True))


def _original_context(model: Any, description: ModelDescription) -> int:
    told = meta(model, f"{description.architecture}.rope.scaling.original_context_length") or ""
    return int(told) if told.isdecimal() and int(told) else description.n_ctx_train


def model_fingerprint(path: str) -> str:
    """Return what tells a model from others, wherever its files lie.

    Of each part: its size, its time of change, its head, and samples from all over it. Reading all of it would take
    longer than what a snapshot saves.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in model_parts(Path(path)):
        status = part.stat()
        digest.update(f"{status.st_size} {status.st_mtime_ns};".encode())
        with part.open("rb", buffering=0) as file:
            digest.update(file.read(_HEAD_BYTES))
            for number in range(1, _NUM_SAMPLES + 1):
                file.seek(max(0, status.st_size * number // _NUM_SAMPLES - _SAMPLE_BYTES))
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()
