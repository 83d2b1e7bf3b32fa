"""Loading a model: tried and planned first, progress that means something, and probes before it is called loaded."""

import contextlib
import ctypes
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from engine.backend import Backend, BatchPart, DecodeStatus, OnProgress, TensorImportance
from engine.backend_llama import library as native
from engine.backend_llama.bare_loop import run_bare_loop
from engine.backend_llama.cache_types import measure_cache_types
from engine.backend_llama.context import AbortFlag, LlamaBackend
from engine.backend_llama.estimate import LoadPlan, plan_load, size_text
from engine.backend_llama.fingerprint import state_keys
from engine.backend_llama.importance_pass import sum_importance
from engine.backend_llama.layer_weights import active_weight_bytes, model_parts
from engine.backend_llama.matmul_rate import matmul_rate
from engine.backend_llama.native_params import (
    PROBE_TOKENS,
    context_settings,
    model_settings,
)
from engine.backend_llama.probing import (
    MIN_CTX,
    ContextSize,
    is_mapped,
    load_reason,
    log_lines,
    meta,
    read_size,
)
from engine.backend_llama.vocabulary import LlamaVocabulary
from engine.errors import DecodeFailed, ModelFileMissing, ModelLoadError, NotAChatModel, OutOfMemory, UnsupportedModel
from engine.machine_speed import buffer_bytes, free_bytes, last_level_cache, read_bandwidth
from engine.messages import (
    BareLoopRun,
    CacheTypeRow,
    EngineDescription,
    MachineSpeed,
    MemoryKind,
    ModelDescription,
    RunBareLoop,
)
from engine.params import ModelParams
from engine.probe_child import TIME_LIMIT_S
from engine.processors import default_threads

_LOG = logging.getLogger(__name__)
_READ_BYTES = 8 * 1024 * 1024
_READ_SHARE, _TENSOR_SHARE = 0.7, 0.2  # of the progress; the rest is the context and the probes
_NO_VOCABULARY = 0  # llama.cpp's vocabulary type of such files; asking it for a token ends the process


class _Made(NamedTuple):
    """What a load has made so far."""

    model: Any
    context: Any
    n_vocab: int
    has_chat_template: bool
    kv_bytes: int
    size: ContextSize
    memory: MemoryKind


class _FileKey(NamedTuple):
    """What says that a file and settings are those that were loaded before."""

    path: str
    num_bytes: int
    changed_at: int
    params: ModelParams


class LlamaLoader:
    """See Loader.

    Args:
        trial_limit_s: how long a file may take in the process that tries it.
    """

    def __init__(self, *, trial_limit_s: float = TIME_LIMIT_S) -> None:
        self._trial_limit_s = trial_limit_s
        self._known: set[_FileKey] = set()
        self._loaded: tuple[ModelParams, ContextSize, AbortFlag] | None = None

    def describe(self) -> EngineDescription:
        """See Loader."""
        return native.describe()

    def load(
        self, path: str, params: ModelParams, on_progress: OnProgress, *, is_known: bool = False
    ) -> LlamaBackend | None:
        """See Loader."""
        library = native.library()
        try:
            key = _check_file(Path(path), params)
            plan = plan_load(
                path,
                params,
                lambda: on_progress(0.0),
                is_known=is_known or key in self._known,
                time_limit_s=self._trial_limit_s,
            )
            if plan is None or not _read_ahead(Path(path), lambda share: on_progress(share * _READ_SHARE), plan):
                return None
        except OSError as error:
            name = Path(path).name[:80]
            raise ModelLoadError(
                f"{name} cannot be read ({error.strerror}).", "Check the file, its parts and its disk.", str(error)
            ) from error
        native.native_log.errors.clear()
        is_wanted = [True]

        def on_tensor(share: float) -> bool:
            is_wanted[0] = is_wanted[0] and on_progress(_READ_SHARE + share * _TENSOR_SHARE)
            return is_wanted[0]

        model = _load_model(library, path, plan, on_tensor)
        if not is_wanted[0]:
            if model:
                library.llama_model_free(model)
            return None
        if not model:
            raise _load_error(path)
        with contextlib.ExitStack() as undo:
            undo.callback(library.llama_model_free, model)
            _check_kind(library, model, path)
            abort = AbortFlag()
            backend, size = _new_backend(library, model, path, plan, abort)
            if not on_progress(1.0):
                backend.close()
                undo.pop_all()
                return None
            undo.pop_all()
        self._known.add(key)
        self._loaded = (plan.params, size, abort)
        return backend

    def measure_cache_types(self, backend: Backend) -> tuple[CacheTypeRow, ...]:
        """See Loader."""
        assert isinstance(backend, LlamaBackend)
        assert self._loaded is not None
        params, size, abort = self._loaded
        return measure_cache_types(backend.model, params, size, abort)

    def measure_machine(self, n_threads: int) -> MachineSpeed:
        """See Loader."""
        threads, cache = n_threads or default_threads(), last_level_cache()
        size = buffer_bytes(cache, free_bytes())
        return MachineSpeed(
            n_threads=threads,
            read_bandwidth=read_bandwidth(threads, size),
            buffer_bytes=size,
            cache_bytes=cache,
            matmul_rate=matmul_rate(threads),
        )

    def run_bare_loop(self, backend: Backend, request: RunBareLoop) -> BareLoopRun:
        """See Loader."""
        assert isinstance(backend, LlamaBackend)
        assert self._loaded is not None
        params, size, abort = self._loaded
        return run_bare_loop(backend.model, params, size, abort, request)

    def sum_importance(
        self, backend: Backend, chunks: Sequence[Sequence[int]], on_chunk: Callable[[int], bool]
    ) -> dict[str, TensorImportance] | None:
        """See Loader."""
        assert isinstance(backend, LlamaBackend)
        assert self._loaded is not None
        params, _, abort = self._loaded
        return sum_importance(backend.model, params, abort, chunks, on_chunk)


def _check_file(path: Path, params: ModelParams) -> _FileKey:
    if not path.is_file():
        raise ModelFileMissing(f"There is no model file {path}.", "Check the path, or choose another file.")
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise UnsupportedModel(f"{path.name} is not a GGUF file.", "Choose a model in GGUF format.")
    resolved = path.resolve()
    status = resolved.stat()
    matters = msgspec.structs.replace(params, n_threads=0)
    return _FileKey(str(resolved), status.st_size, status.st_mtime_ns, matters)


def _read_ahead(path: Path, on_progress: OnProgress, plan: LoadPlan) -> bool:
    """Read the file into the system's cache, so that mapping it does not block: that hears neither progress nor
    cancel. Returns False when it was given up."""
    parts = model_parts(path)
    total = sum(part.stat().st_size for part in parts)
    if total > psutil.virtual_memory().available or not is_mapped(plan.params):
        return on_progress(1.0)  # it would push itself out again, or is going to be read anyway
    buffer, done = bytearray(_READ_BYTES), 0
    for part in parts:
        with part.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                done += count
                if not on_progress(done / total):
                    return False
    return True


def _load_model(library: Any, path: str, plan: LoadPlan, on_tensor: OnProgress) -> Any:
    def callback(share: float, user_data: object) -> bool:
        try:
            return on_tensor(share)
        except Exception:  # an exception would return garbage to native code
            _LOG.exception("progress could not be told")
            return True

    placement = plan.placement
    settings = model_settings(
        plan.params, n_gpu_layers=placement.n_gpu_layers, devices=placement.handles, repacks=plan.repacks
    )
    settings.native.progress_callback = library.llama_progress_callback(callback)
    return library.llama_model_load_from_file(os.fsencode(path), settings.native)


def _load_error(path: str) -> ModelLoadError:
    return UnsupportedModel(
        f"llama.cpp cannot load {Path(path).name}: {load_reason()}",
        "The file may be damaged, or of a kind this version does not know.",
        "\n".join(native.native_log.errors),
    )


def _check_kind(library: Any, model: Any, path: str) -> None:
    name = Path(path).name
    if library.llama_vocab_type(library.llama_model_get_vocab(model)) == _NO_VOCABULARY:
        raise NotAChatModel(f"{name} has no vocabulary.", "Choose a chat model.")
    if library.llama_model_has_encoder(model) or not library.llama_model_has_decoder(model):
        raise NotAChatModel(f"{name} does not generate text.", "Choose a chat model.")
    if library.llama_model_is_diffusion(model):
        raise UnsupportedModel(
            f"{name} writes all of a text at once, which this version cannot run.", "Choose another model."
        )


def _new_backend(
    library: Any, model: Any, path: str, plan: LoadPlan, abort: AbortFlag
) -> tuple[LlamaBackend, ContextSize]:
    vocabulary = LlamaVocabulary(model)
    with log_lines() as lines:
        context = _new_context(library, model, plan, abort)
    size = read_size(lines, n_ctx=plan.n_ctx, type_k=plan.type_k, type_v=plan.type_v)
    if not context:
        needed = f"; it needs {size_text(plan.size.total_bytes)}" if plan.size else ""
        raise OutOfMemory(
            f"The context of {plan.n_ctx:,} tokens could not be made{needed}.",
            "Load the model with a smaller context.",
            "\n".join(native.native_log.errors),
        )
    if plan.size is not None:
        _LOG.info("the context takes %d bytes, %d were expected", size.total_bytes, plan.size.total_bytes)
    try:
        backend = LlamaBackend(model, context, vocabulary=vocabulary, abort=abort, n_seq_max=plan.params.n_seq_max)
        _probe(library, backend, context)
        has_template = vocabulary.chat_template is not None
        kv_bytes = plan.kv_bytes_per_token or (size.key_bytes + size.value_bytes) // size.n_ctx
        made = _Made(model, context, len(vocabulary.pieces), has_template, kv_bytes, size, backend.kind)
        backend.description = _describe(made, path, plan)
        backend.state_keys = state_keys(path, plan.params, backend.description, model)
    except Exception:
        library.llama_free(context)  # before its model, which the caller frees
        raise
    return backend, size


def _describe(made: _Made, path: str, plan: LoadPlan) -> ModelDescription:
    library, model, context = native.library(), made.model, made.context
    params, notices = plan.params, plan.notices
    n_ctx_made = library.llama_n_ctx(context)
    if params.n_ctx and n_ctx_made != params.n_ctx:
        notices = (*notices, f"The context is {n_ctx_made:,} tokens: its size is a multiple of {MIN_CTX}.")
    return ModelDescription(
        path=path,
        name=meta(model, "general.name") or Path(path).stem,
        architecture=meta(model, "general.architecture") or "unknown",
        type_name=_text_of(library.llama_model_desc, model),
        n_params=library.llama_model_n_params(model),
        weight_bytes=library.llama_model_size(model),
        active_weight_bytes=active_weight_bytes(path, _experts_in_use(model)),
        n_ctx=n_ctx_made,
        n_ctx_requested=params.n_ctx,
        n_ctx_train=library.llama_model_n_ctx_train(model),
        n_vocab=made.n_vocab,
        n_layer=library.llama_model_n_layer(model),
        n_batch=library.llama_n_batch(context),
        n_ubatch=library.llama_n_ubatch(context),
        n_seq_max=params.n_seq_max,
        n_threads=library.llama_n_threads(context),
        n_gpu_layers=plan.placement.n_gpu_layers,
        device=plan.placement.device,
        type_k=plan.type_k,
        type_v=plan.type_v,
        kv_bytes_per_token=made.kv_bytes,
        cache_bytes=made.size.cache_bytes,
        compute_bytes=made.size.compute_bytes,
        has_chat_template=made.has_chat_template,
        memory=made.memory,
        load_s=0.0,  # set by the worker, which also prepares the chat template
        notices=notices,
    )


def _new_context(library: Any, model: Any, plan: LoadPlan, abort: AbortFlag) -> Any:
    native_params = context_settings(plan.params, n_ctx=plan.n_ctx, type_k=plan.type_k, type_v=plan.type_v)
    native_params.swa_full = False  # layers that see a window keep a window; going back is done by checkpoints
    native_params.abort_callback = abort.callback
    native_params.abort_callback_data = abort.data
    return library.llama_init_from_model(model, native_params)


def _probe(library: Any, backend: LlamaBackend, context: Any) -> None:
    """Compute two tokens and take one back: warms up, and tells what kind of memory the model has."""
    if not library.llama_get_memory(context):
        raise NotAChatModel("This model keeps no context, so it cannot chat.", "Choose a chat model.")
    token = backend.vocabulary.bos_id or 0
    try:
        status = backend.decode([BatchPart(0, 0, (token,) * PROBE_TOKENS, wants_logits=True)])
    except DecodeFailed as error:
        raise ModelLoadError("The model could not compute a first step.", error.hint, error.details) from error
    if status is not DecodeStatus.DONE:
        raise ModelLoadError("The model could not compute a first step.", "Load it with a larger context.")
    can_trim = backend.seq_rm(0, 1)
    backend.seq_rm(0, 0)
    if library.llama_model_is_hybrid(backend.model):
        backend.kind = MemoryKind.HYBRID
    elif not can_trim:
        backend.kind = MemoryKind.RECURRENT
    elif backend.n_swa > 0:
        backend.kind = MemoryKind.WINDOW


def _experts_in_use(model: Any) -> float:
    """Return the share of a layer's experts that one token uses; 1 in a model without any."""
    architecture = meta(model, "general.architecture") or ""
    try:
        count = int(meta(model, f"{architecture}.expert_count") or 0)
        used = int(meta(model, f"{architecture}.expert_used_count") or 0)
    except ValueError:
        return 1.0
    return used / count if 0 < used <= count else 1.0


def _text_of(function: Any, model: Any) -> str:
    buffer = ctypes.create_string_buffer(256)
    function(model, buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace")
