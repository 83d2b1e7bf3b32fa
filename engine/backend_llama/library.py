"""The native library: how it is imported, its log, its devices, and the few calls the binding does not have."""

import ctypes
import functools
import importlib.metadata
import importlib.util
import logging
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from engine.errors import EngineStartFailed
from engine.messages import Device, EngineDescription
from engine.processors import default_threads

_LOG = logging.getLogger(__name__)
_NATIVE_LOG = logging.getLogger("llama.cpp")

_LEVEL_DEBUG, _LEVEL_ERROR, _LEVEL_CONT = 1, 4, 5
_DEVICE_KINDS = {0: "cpu", 1: "gpu", 2: "integrated gpu", 3: "accelerator"}
_ERROR_LINES = 12


class NativeLog:
    """Collects llama.cpp's lines, hands them to logging, and remembers the last errors."""

    def __init__(self) -> None:
        self.errors: deque[str] = deque(maxlen=_ERROR_LINES)
        self.listener: Callable[[str], None] | None = None  # hears every line while it is set
        self._level = 0
        self._text = ""

    def write(self, level: int, text: bytes) -> None:
        """Take a piece of the log; a line may come in several."""
        if level != _LEVEL_CONT:
            self._flush()
            self._level = level
        if self._level <= _LEVEL_DEBUG:  # a context alone makes 900 of them
            return
        self._text += text.decode("utf-8", "replace")
        if self._text.endswith("\n"):
            self._flush()

    def _flush(self) -> None:
        text, self._text = self._text.strip(), ""
        if not text:
            return
        if self._level == _LEVEL_ERROR:
            self.errors.append(text)
        if self.listener is not None:
            self.listener(text)
        # Its warnings are about choices we make on purpose, and a stop counts as an error there: none is one of ours,
        # which tell their reason themselves.
        _NATIVE_LOG.info("%s", text)


native_log = NativeLog()
_keep_alive: list[Any] = []  # callbacks must outlive the library's use of them


@functools.cache
def library() -> Any:
    """Return the binding's low-level module, initialised, with our log callback.

    Raises:
        EngineStartFailed: it is not installed or cannot be loaded.
    """
    try:
        module = _import_low_level()
    except (ImportError, OSError, RuntimeError) as error:
        raise EngineStartFailed(
            "llama.cpp could not be loaded.", "Install Fireside again; `fireside doctor` says more.", str(error)
        ) from error
    log_callback = module.llama_log_callback(_on_log)
    abort_callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_on_native_abort)
    _keep_alive.extend((log_callback, abort_callback))
    module.llama_log_set(log_callback, None)
    module._lib.ggml_set_abort_callback.restype = None
    module._lib.ggml_set_abort_callback(abort_callback)
    module.llama_backend_init()
    return module


def _import_low_level() -> Any:
    """Import `llama_cpp.llama_cpp` without running the package's own start-up.

    That would install a log callback with a wrong level table and import what the engine never uses (0.2 s, 11 MB).
    """
    if "llama_cpp" not in sys.modules:
        spec = importlib.util.find_spec("llama_cpp")
        if spec is None:
            raise ImportError("llama-cpp-python is not installed")
        sys.modules["llama_cpp"] = importlib.util.module_from_spec(spec)  # made, but never executed
    import llama_cpp.llama_cpp as module

    return module


def _on_log(level: int, text: bytes, user_data: object) -> None:
    try:
        native_log.write(level, text)
    except Exception:  # an exception in a callback returns garbage to native code
        _LOG.exception("a log line was lost")


def _on_native_abort(message: bytes) -> None:
    try:
        _NATIVE_LOG.critical("%s", message.decode("utf-8", "replace").strip())
    except Exception:
        _LOG.exception("the reason of an abort was lost")


def native_function(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of the library with a signature of its own; calls release the GIL."""
    return ctypes.CFUNCTYPE(result, *arguments)((name, library()._lib))


def return_memory() -> None:
    """Give freed heap memory back to the system, where its C library keeps it for later (glibc)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def device_handle(place: int) -> int:
    """Return the library's own handle of a device, by its place in `devices()`."""
    return int(native_function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)(place))


def devices() -> tuple[Device, ...]:
    """Return all devices of the library."""
    count = native_function("ggml_backend_dev_count", ctypes.c_size_t)
    get = native_function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
    name = native_function("ggml_backend_dev_name", ctypes.c_char_p, ctypes.c_void_p)
    description = native_function("ggml_backend_dev_description", ctypes.c_char_p, ctypes.c_void_p)
    kind = native_function("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)
    size_pointer = ctypes.POINTER(ctypes.c_size_t)
    memory = native_function("ggml_backend_dev_memory", None, ctypes.c_void_p, size_pointer, size_pointer)
    found = []
    for index in range(count()):
        handle = get(index)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        memory(handle, ctypes.byref(free), ctypes.byref(total))
        device_kind = _DEVICE_KINDS.get(kind(handle), "other")
        found.append(
            Device(
                name=name(handle).decode("utf-8", "replace"),
                description=description(handle).decode("utf-8", "replace"),
                kind=device_kind,
                total_bytes=total.value or None,
                # The processor's free memory is reported as its total: not known.
                free_bytes=free.value or None if device_kind != "cpu" else None,
            )
        )
    return tuple(found)


def describe() -> EngineDescription:
    """Return versions and devices."""
    module = library()
    return EngineDescription(
        binding=importlib.metadata.version("llama-cpp-python"),
        library=module.llama_version().decode(),
        features=module.llama_print_system_info().decode().strip(),
        devices=devices(),
        default_threads=default_threads(),
    )
