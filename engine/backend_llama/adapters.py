"""The LoRA adapters of one model: loaded once each, in effect by key, and freed before their model."""

import ctypes
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import psutil

from engine.backend import AdapterKey
from engine.backend_llama.adapter_file import AdapterFile, check_adapter, find_adapter, printable
from engine.backend_llama.library import library, native_log
from engine.errors import AdapterMismatch, InvalidParams
from engine.messages import Adapter

_MAX_SCALE = 100.0
_MAX_ADAPTERS = 8  # of one request: a step gets slower with each
_MAX_KEPT, _MAX_KEPT_BYTES = 32, 2 * 1024**3
_GIB = 1024**3
_CHOOSE = "Choose an adapter that was trained on this model."


class _Kept(NamedTuple):
    """A loaded adapter."""

    pointer: Any
    num_bytes: int


class ModelAdapters:
    """The adapters of a model. A file is another adapter once its size or time of change is another.

    Args:
        model, context: pointers, owned by the caller.
    """

    def __init__(self, model: Any, context: Any) -> None:
        self._library = library()
        self._model = model
        self._context = context
        self._kept: dict[str, _Kept] = {}  # the one used last stands last
        self._current: AdapterKey = ()

    def load(self, adapters: Sequence[Adapter]) -> AdapterKey:
        """Return the key of adapters, which are loaded now; the scales of one that is named twice are added.

        Raises:
            AdapterMismatch: one cannot be read, is no adapter, or belongs to another model.
            InvalidParams: a scale is not legal, or there are too many.
        """
        if len(adapters) > _MAX_ADAPTERS:
            raise InvalidParams(f"There are {len(adapters)} adapters.", f"Use {_MAX_ADAPTERS} at most.")
        for adapter in adapters:
            _check_scale(adapter.scale)
        scales: dict[str, float] = {}
        for adapter in adapters:
            if adapter.scale:
                file = find_adapter(adapter.path)
                self._keep(file)
                scales[file.identity] = scales.get(file.identity, 0.0) + adapter.scale
        for scale in scales.values():
            _check_scale(scale)
        # Rounded as native code takes them, so that equal keys compute alike.
        key = tuple(sorted((identity, float(np.float32(scale))) for identity, scale in scales.items()))
        self._forget_oldest([*key, *self._current])
        return tuple((identity, scale) for identity, scale in key if scale)

    def use(self, key: AdapterKey) -> None:
        """Compute with these from now on; one that was unloaded meanwhile is loaded again.

        Raises:
            AdapterMismatch: that one has changed.
        """
        if key == self._current:
            return
        for identity, _ in key:
            self._keep_again(identity)
        count = len(key)
        if count:
            pointers = (self._library.llama_adapter_lora_p_ctypes * count)(
                *(self._kept[name].pointer for name, _ in key)
            )
            scales = (ctypes.c_float * count)(*(scale for _, scale in key))
            self._library.llama_set_adapters_lora(self._context, pointers, count, scales)
        else:
            self._library.llama_set_adapters_lora(self._context, None, 0, None)
        self._current = key

    def close(self) -> None:
        """Free all; the context must be gone."""
        self._current = ()
        while self._kept:
            self._library.llama_adapter_lora_free(self._kept.popitem()[1].pointer)

    def _keep(self, file: AdapterFile) -> None:
        kept = self._kept.pop(file.identity, None)
        self._kept[file.identity] = kept or _Kept(self._load_file(file), file.num_bytes)

    def _keep_again(self, identity: str) -> None:
        if identity in self._kept:
            self._kept[identity] = self._kept.pop(identity)
            return
        file = find_adapter(identity.rsplit(":", 2)[0])
        if file.identity != identity:
            raise AdapterMismatch(f"{file.name} was replaced while it was in use.", "Ask again.")
        self._keep(file)

    def _load_file(self, file: AdapterFile) -> Any:
        architecture = self._meta("general.architecture")
        num_experts = self._meta(f"{architecture}.expert_count")
        check_adapter(file, architecture, int(num_experts) if num_experts.isdigit() else 0)
        if file.num_bytes > psutil.virtual_memory().available:
            raise AdapterMismatch(
                f"{file.name} needs {file.num_bytes / _GIB:.1f} GiB of memory, which are not free.",
                "Close other programs, or leave the adapter out.",
            )
        native_log.errors.clear()
        pointer = self._library.llama_adapter_lora_init(self._model, os.fsencode(file.path))
        if not pointer:
            raise _refused(file)
        if find_adapter(str(file.path)).identity != file.identity:
            self._library.llama_adapter_lora_free(pointer)
            raise AdapterMismatch(f"{file.name} changed while it was read.", "Ask again.")
        return pointer

    def _forget_oldest(self, needed: Iterable[tuple[str, float]]) -> None:
        """Unload what was not used for longest, beyond what is worth keeping."""
        names = {identity for identity, _ in needed}
        for identity in [name for name in self._kept if name not in names]:
            num_bytes = sum(kept.num_bytes for kept in self._kept.values())
            if len(self._kept) <= _MAX_KEPT and num_bytes <= _MAX_KEPT_BYTES:
                return
            self._library.llama_adapter_lora_free(self._kept.pop(identity).pointer)

    def _meta(self, key: str) -> str:
        buffer = ctypes.create_string_buffer(128)
        length = self._library.llama_model_meta_val_str(self._model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if length >= 0 else ""


def _check_scale(scale: float) -> None:
    if not math.isfinite(scale) or abs(scale) > _MAX_SCALE:
        raise InvalidParams(
            f"The scale of an adapter is {scale:g}, outside -{_MAX_SCALE:g} to {_MAX_SCALE:g}.",
            "Give a scale such as 1, or 0.5 for half the effect.",
        )


def _refused(file: AdapterFile) -> AdapterMismatch:
    errors = list(native_log.errors)
    told = [line.partition("lora adapter: ")[2] for line in errors if "lora adapter: " in line]
    reason = printable((told[-1] if told else "llama.cpp gives no reason").partition(" (hint")[0].strip())
    return AdapterMismatch(f"{file.name} does not fit this model: {reason}.", _CHOOSE, "\n".join(errors))
