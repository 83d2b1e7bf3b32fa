"""What loads have really taken here: a small file from which the next prediction is corrected."""

import contextlib
import dataclasses
import logging
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

from app.atomic_file import write_atomically
from app.paths import Paths
from engine import ModelDescription, RequestMetrics

# What takes long to import is imported where it is used: the first paint of the window does not wait for it.
_LOG = logging.getLogger(__name__)
_FILE_NAME = "memory-record.json"
_SCHEMA = 1
_MAX_ENTRIES = 32
_MAX_FILE_BYTES = 1 << 18
_MAX_SHARE = 0.5  # of what was reckoned: a load that is further off says nothing of the next one
_PLENTY = 1 << 50


@dataclasses.dataclass(frozen=True)
class MeasuredLoad:
    """One load.

    Attributes:
        key: stands for the file and the settings that take memory.
        reckoned_bytes: predicted without any correction.
        peak_bytes: measured.
    """

    key: str
    reckoned_bytes: int
    peak_bytes: int

    @property
    def offset_bytes(self) -> int:
        """What the prediction lacked."""
        return self.peak_bytes - self.reckoned_bytes


class _Used(NamedTuple):
    """How much of the buffers of a load was used: tokens read at once, and tokens of a whole chat."""

    num_read: int
    num_tokens: int


class MemoryRecord:
    """The record, kept in a small file; losing it costs some accuracy and nothing else. Any thread may use it.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[tuple[str, float], _Used] = (("", 0.0), _Used(0, 0))

    @classmethod
    def in_paths(cls, paths: Paths) -> "MemoryRecord":
        """Return the record of this user."""
        return cls(paths.data_dir / _FILE_NAME)

    def offset_bytes(self) -> int:
        """Return by how much a load takes more here than reckoned; 0 before anything was measured.

        It is the median of the last loads, so that a single odd one changes little.
        """
        import statistics

        offsets = [load.offset_bytes for load in self._read()]
        return round(statistics.median(offsets)) if offsets else 0

    def can_learn(self, model: ModelDescription, metrics: RequestMetrics) -> bool:
        """Return whether a reply tells more of what its model takes than the earlier ones since its load."""
        if metrics.peak_memory_bytes is None or model.n_gpu_layers:
            return False
        seen, now = self._seen_of(model), _used(metrics)
        return now.num_read > seen.num_read or now.num_tokens > 2 * seen.num_tokens

    def note(self, model: ModelDescription, metrics: RequestMetrics, *, features: str = "") -> None:
        """Learn from a reply what its model has taken; reads the header of the file, so not for a window's thread.

        A reply that tells nothing new, a file that cannot be looked at, or a full disk is passed over.

        Args:
            features: of the engine, see EngineDescription.
        """
        if not self.can_learn(model, metrics):
            return
        with self._lock:
            seen, now = self._seen_of(model), _used(metrics)
            most = _Used(max(seen.num_read, now.num_read), max(seen.num_tokens, now.num_tokens))
            self._seen = (_load_of(model), most)
            load = _measured(model, metrics.peak_memory_bytes or 0, most, features)
            if load is not None:
                others = [entry for entry in self._read() if entry.key != load.key]
                self._write([*others, load][-_MAX_ENTRIES:])

    def _seen_of(self, model: ModelDescription) -> "_Used":
        load, used = self._seen
        return used if load == _load_of(model) else _Used(0, 0)

    # --- the file ---

    def _read(self) -> list[MeasuredLoad]:
        import json

        try:
            if self._path.stat().st_size > _MAX_FILE_BYTES:
                raise ValueError("far too large")
            table = json.loads(self._path.read_text("utf-8"))
            return _loads_of(table)
        except FileNotFoundError:
            return []
        except (OSError, ValueError, RecursionError) as error:
            self._set_aside(error)
            return []

    def _set_aside(self, reason: Exception) -> None:
        _LOG.warning("the record of loads is damaged: %s", reason)
        with contextlib.suppress(OSError):
            self._path.replace(self._path.with_name(f"{self._path.name}.damaged"))

    def _write(self, loads: list[MeasuredLoad]) -> None:
        import json

        text = json.dumps({"schema": _SCHEMA, "loads": [dataclasses.asdict(load) for load in loads]}, indent=1)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, text.encode())
        except OSError as error:
            _LOG.info("what the load has taken is not remembered: %s", error)


def _loads_of(table: Any) -> list[MeasuredLoad]:
    """Return the loads in a file.

    Raises:
        ValueError: it does not hold loads.
    """
    if not isinstance(table, dict) or not isinstance(table.get("loads"), list):
        raise ValueError("it holds no loads")
    loads = []
    for entry in table["loads"][-_MAX_ENTRIES:]:
        if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
            raise ValueError("an entry is no load")
        load = MeasuredLoad(entry["key"], _size_of(entry, "reckoned_bytes"), _size_of(entry, "peak_bytes"))
        if _is_plausible(load):
            loads.append(load)
    return loads


def _size_of(entry: dict[str, Any], name: str) -> int:
    size = entry.get(name)
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < _PLENTY:
        raise ValueError("an entry has impossible sizes")
    return size


def _is_plausible(load: MeasuredLoad) -> bool:
    return abs(load.offset_bytes) <= _MAX_SHARE * load.reckoned_bytes


def _load_of(model: ModelDescription) -> tuple[str, float]:
    """Return what tells a load from the others: no two take the same time."""
    return model.path, model.load_s


def _used(metrics: RequestMetrics) -> _Used:
    num_read = metrics.num_prompt_tokens - metrics.num_cached_tokens
    return _Used(max(num_read, 1), metrics.num_prompt_tokens + metrics.num_generated_tokens)


def _measured(model: ModelDescription, peak_bytes: int, used: _Used, features: str) -> MeasuredLoad | None:
    import hashlib

    found = reckoned_peak(model, features=features, num_read=used.num_read, num_tokens=used.num_tokens)
    if found is None or peak_bytes <= 0:
        return None
    key = "|".join((model.path, model.type_k, model.type_v, str(model.n_ctx), str(model.n_seq_max)))
    load = MeasuredLoad(hashlib.sha256(os.fsencode(key)).hexdigest()[:32], found, peak_bytes)
    return load if _is_plausible(load) else None


def reckoned_peak(
    model: ModelDescription, *, features: str = "", num_read: int | None = None, num_tokens: int | None = None
) -> int | None:
    """Return the predicted high-water memory of a model as it is loaded, without any correction; None is not known.

    Buffers take memory only as far as they are used.

    Args:
        features: of the engine, see EngineDescription.
        num_read: most tokens that were read at once; None takes as many as can be.
        num_tokens: most tokens of a chat; None takes as many as can be.
    """
    from models import (
        CacheSettings,
        ModelsError,
        Room,
        Verdict,
        Wish,
        compute_bytes,
        fit,
        read_gguf_info,
        repacked_types,
    )

    try:
        info = read_gguf_info(Path(model.path))
    except (ModelsError, OSError, ValueError):
        return None
    cache = CacheSettings(
        type_k=model.type_k,
        type_v=model.type_v,
        n_seq_max=model.n_seq_max,
        n_batch=model.n_batch,
        n_ubatch=model.n_ubatch,
    )
    found = fit(info, Wish(n_ctx=model.n_ctx, cache=cache), Room(_PLENTY, repacked_types=repacked_types(features)))
    if found.verdict is Verdict.UNKNOWN or info.hyperparameters is None or info.kv_layout is None:
        return None
    num_read = min(num_read or model.n_ubatch, model.n_ubatch)
    part = dataclasses.replace(cache, n_batch=num_read, n_ubatch=num_read)
    n_ctx = min(num_tokens or model.n_ctx, model.n_ctx)
    used_bytes = compute_bytes(info.hyperparameters, info.kv_layout, n_ctx, part)
    return found.peak_bytes - max(found.compute_bytes - used_bytes, 0)
