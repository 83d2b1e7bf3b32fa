"""Loading a model: progress that means something, memory checked first, and probes before it is called loaded."""

import contextlib
import ctypes
import logging
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from engine.backend import BatchPart, DecodeStatus, OnProgress
from engine.backend_llama import library as native
from engine.backend_llama.context import AbortFlag, LlamaBackend
from engine.backend_llama.vocabulary import LlamaVocabulary
from engine.errors import DecodeFailed, ModelFileMissing, ModelLoadError, NotAChatModel, OutOfMemory, UnsupportedModel
from engine.messages import EngineDescription, MemoryKind, ModelDescription
from engine.params import FlashAttention, ModelParams
from engine.threads import default_threads

_LOG = logging.getLogger(__name__)
_READ_BYTES = 8 * 1024 * 1024
_READ_SHARE, _TENSOR_SHARE = 0.7, 0.2  # of the progress; the rest is the context and the probes
_AUTO_CTX = 8192  # more is a choice: its memory is taken at once
_MIN_CTX = 256
_GIB = 1024**3
_PROBE_TOKENS = 2
_NO_VOCABULARY = 0  # llama.cpp's vocabulary type of such files; asking it for a token ends the process
# llama.cpp's ids of the cache types, and (bytes, elements) of a block.
_CACHE_TYPES = {
    "f32": (0, 4, 1),
    "f16": (1, 2, 1),
    "bf16": (30, 2, 1),
    "q8_0": (8, 34, 32),
    "q5_1": (7, 24, 32),
    "q5_0": (6, 22, 32),
    "q4_1": (3, 20, 32),
    "q4_0": (2, 18, 32),
    "iq4_nl": (20, 18, 32),
}
_FLASH_ATTENTION = {FlashAttention.AUTO: -1, FlashAttention.OFF: 0, FlashAttention.ON: 1}


class _Made(NamedTuple):
    """What a load has made so far."""

    model: Any
    context: Any
    n_vocab: int
    has_chat_template: bool
    kv_bytes: int
    memory: MemoryKind


class LlamaLoader:
    """See Loader."""

    def describe(self) -> EngineDescription:
        """See Loader."""
        return native.describe()

    def load(self, path: str, params: ModelParams, on_progress: OnProgress) -> LlamaBackend | None:
        """See Loader."""
        library = native.library()
        try:
            _check_file(Path(path))
            if not _read_ahead(Path(path), lambda share: on_progress(share * _READ_SHARE)):
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

        model = _load_model(library, path, params, on_tensor)
        if not is_wanted[0]:
            if model:
                library.llama_model_free(model)
            return None
        if not model:
            raise _load_error(path)
        with contextlib.ExitStack() as undo:
            undo.callback(library.llama_model_free, model)
            _check_kind(library, model, path)
            backend = _new_backend(library, model, path, params)
            if not on_progress(1.0):
                backend.close()
                undo.pop_all()
                return None
            undo.pop_all()
        return backend


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise ModelFileMissing(f"There is no model file {path}.", "Check the path, or choose another file.")
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise UnsupportedModel(f"{path.name} is not a GGUF file.", "Choose a model in GGUF format.")


def _read_ahead(path: Path, on_progress: OnProgress) -> bool:
    """Read the file into the system's cache, so that mapping it does not block: that hears neither progress nor
    cancel. Returns False when it was given up."""
    parts = _parts(path)
    total = sum(part.stat().st_size for part in parts)
    if total > psutil.virtual_memory().available:
        return on_progress(1.0)  # it would push itself out again
    buffer, done = bytearray(_READ_BYTES), 0
    for part in parts:
        with part.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                done += count
                if not on_progress(done / total):
                    return False
    return True


def _parts(path: Path) -> list[Path]:
    """Return the files of a split model, or just `path`."""
    match = re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.gguf", path.name)
    if match is None:
        return [path]
    names = (f"{match[1]}-{number:05}-of-{match[2]}.gguf" for number in range(1, int(match[2]) + 1))
    return [part for name in names if (part := path.with_name(name)).is_file()] or [path]


def _load_model(library: Any, path: str, params: ModelParams, on_tensor: OnProgress) -> Any:
    def callback(share: float, user_data: object) -> bool:
        try:
            return on_tensor(share)
        except Exception:  # an exception would return garbage to native code
            _LOG.exception("progress could not be told")
            return True

    native_params = library.llama_model_default_params()
    native_params.n_gpu_layers = -1 if params.n_gpu_layers is None else params.n_gpu_layers
    native_params.progress_callback = library.llama_progress_callback(callback)
    return library.llama_model_load_from_file(os.fsencode(path), native_params)


def _load_error(path: str) -> ModelLoadError:
    errors = list(native.native_log.errors)
    reason = next((line for line in errors if "error" in line.lower()), errors[0] if errors else "no reason given")
    return UnsupportedModel(
        f"llama.cpp cannot load {Path(path).name}: {reason.partition(': ')[2] or reason}",
        "The file may be damaged, or of a kind this version does not know.",
        "\n".join(errors),
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


def _new_backend(library: Any, model: Any, path: str, params: ModelParams) -> LlamaBackend:
    vocabulary = LlamaVocabulary(model)
    kv_bytes = _kv_bytes_per_token(library, model, params)
    n_ctx, notices = _choose_ctx(library.llama_model_n_ctx_train(model), params.n_ctx, kv_bytes)
    abort = AbortFlag()
    context = _new_context(library, model, params, n_ctx, abort)
    if not context:
        raise OutOfMemory(
            f"The context of {n_ctx:,} tokens could not be made; its cache needs {n_ctx * kv_bytes / _GIB:.1f} GiB.",
            "Load the model with a smaller context.",
            "\n".join(native.native_log.errors),
        )
    try:
        backend = LlamaBackend(model, context, vocabulary=vocabulary, abort=abort, n_seq_max=params.n_seq_max)
        _probe(library, backend, context)
        has_template = vocabulary.chat_template is not None
        made = _Made(model, context, len(vocabulary.pieces), has_template, kv_bytes, backend.kind)
        backend.description = _describe(made, path, params, notices)
    except Exception:
        library.llama_free(context)  # before its model, which the caller frees
        raise
    return backend


def _describe(made: _Made, path: str, params: ModelParams, notices: tuple[str, ...]) -> ModelDescription:
    library, model, context = native.library(), made.model, made.context
    n_ctx_made = library.llama_n_ctx(context)
    if params.n_ctx and n_ctx_made != params.n_ctx:
        notices = (*notices, f"The context is {n_ctx_made:,} tokens: its size is a multiple of {_MIN_CTX}.")
    gpus = native.gpu_names()
    num_layers = library.llama_model_n_layer(model) + 1  # the output counts as one
    asked = num_layers if params.n_gpu_layers is None else params.n_gpu_layers
    return ModelDescription(
        path=path,
        name=_meta(library, model, "general.name") or Path(path).stem,
        architecture=_meta(library, model, "general.architecture") or "unknown",
        type_name=_text_of(library.llama_model_desc, model),
        n_params=library.llama_model_n_params(model),
        weight_bytes=library.llama_model_size(model),
        n_ctx=n_ctx_made,
        n_ctx_requested=params.n_ctx,
        n_ctx_train=library.llama_model_n_ctx_train(model),
        n_vocab=made.n_vocab,
        n_layer=num_layers - 1,
        n_batch=library.llama_n_batch(context),
        n_ubatch=library.llama_n_ubatch(context),
        n_seq_max=params.n_seq_max,
        n_threads=library.llama_n_threads(context),
        n_gpu_layers=min(asked, num_layers) if gpus else 0,
        device=gpus[0] if gpus and asked else "CPU",
        type_k=params.type_k,
        type_v=params.type_v,
        kv_bytes_per_token=made.kv_bytes,
        has_chat_template=made.has_chat_template,
        memory=made.memory,
        load_s=0.0,  # set by the worker, which also prepares the chat template
        notices=notices,
    )


def _new_context(library: Any, model: Any, params: ModelParams, n_ctx: int, abort: AbortFlag) -> Any:
    native_params = library.llama_context_default_params()
    threads = params.n_threads or default_threads()
    native_params.n_ctx = n_ctx
    native_params.n_batch = max(params.n_batch, params.n_ubatch, params.n_seq_max, _PROBE_TOKENS)
    native_params.n_ubatch = params.n_ubatch
    native_params.n_seq_max = params.n_seq_max
    # One row of logits a sequence and step: by default half a gigabyte goes to rows nobody asks for.
    native_params.n_outputs_max = params.n_seq_max
    native_params.n_threads = native_params.n_threads_batch = threads
    native_params.flash_attn_type = _FLASH_ATTENTION[params.flash_attn]
    native_params.type_k = _CACHE_TYPES[params.type_k][0]
    native_params.type_v = _CACHE_TYPES[params.type_v][0]
    native_params.kv_unified = True
    native_params.swa_full = False  # layers that see a window keep a window; going back is done by checkpoints
    native_params.no_perf = True
    native_params.abort_callback = abort.callback
    native_params.abort_callback_data = abort.data
    return library.llama_init_from_model(model, native_params)


def _probe(library: Any, backend: LlamaBackend, context: Any) -> None:
    """Compute two tokens and take one back: warms up, and tells what kind of memory the model has."""
    if not library.llama_get_memory(context):
        raise NotAChatModel("This model keeps no context, so it cannot chat.", "Choose a chat model.")
    token = backend.vocabulary.bos_id or 0
    try:
        status = backend.decode([BatchPart(0, 0, (token,) * _PROBE_TOKENS, wants_logits=True)])
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


def _choose_ctx(n_ctx_train: int, n_ctx: int, kv_bytes: int) -> tuple[int, tuple[str, ...]]:
    """Return the context size to make, and what a person should know about it.

    Raises:
        OutOfMemory: the size that was asked for does not fit.
    """
    fitting = max(_MIN_CTX, psutil.virtual_memory().available // max(kv_bytes, 1))
    if n_ctx > fitting:
        raise OutOfMemory(
            f"A context of {n_ctx:,} tokens needs {n_ctx * kv_bytes / _GIB:.1f} GiB; "
            f"{psutil.virtual_memory().available / _GIB:.1f} GiB are free.",
            f"Load the model with a context of {fitting // _MIN_CTX * _MIN_CTX:,} tokens or fewer.",
        )
    if n_ctx > n_ctx_train > 0:
        notice = f"The context of {n_ctx:,} tokens is longer than the {n_ctx_train:,} the model was trained for."
        return n_ctx, (notice,)
    if n_ctx:
        return n_ctx, ()
    wanted = min(n_ctx_train or _AUTO_CTX, _AUTO_CTX)
    if wanted <= fitting // 2:
        return wanted, ()
    chosen = max(_MIN_CTX, fitting // 2 // _MIN_CTX * _MIN_CTX)
    return chosen, (f"The context is {chosen:,} tokens, because little memory is free.",)


def _kv_bytes_per_token(library: Any, model: Any, params: ModelParams) -> int:
    """Return bytes a token takes in the cache: for each layer one row of keys and one of values.

    Head sizes come from the file, or are n_embd / n_head, as in llama.cpp's hyper-parameters.
    """
    architecture = _meta(library, model, "general.architecture") or ""
    heads = max(library.llama_model_n_head(model), 1)
    default = library.llama_model_n_embd(model) // heads
    total = 0
    for key, cache_type in (("key_length", params.type_k), ("value_length", params.type_v)):
        size = _meta(library, model, f"{architecture}.attention.{key}")
        width = (int(size) if size and size.isdigit() else default) * library.llama_model_n_head_kv(model)
        _, block_bytes, block_elements = _CACHE_TYPES[cache_type]
        total += width * block_bytes // block_elements
    return total * int(library.llama_model_n_layer(model))


def _meta(library: Any, model: Any, key: str) -> str | None:
    buffer = ctypes.create_string_buffer(512)
    length = library.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if length >= 0 else None


def _text_of(function: Any, model: Any) -> str:
    buffer = ctypes.create_string_buffer(256)
    function(model, buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace")
