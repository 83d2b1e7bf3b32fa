"""The process that quantises: the only place outside the engine that loads llama.cpp, and it may die of a file.

It speaks over its pipe alone; native code owns its standard output and error.
"""

import contextlib
import ctypes
import importlib.util
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from models.imatrix_file import ImatrixFault, MatrixValues, TensorPlace, check_matrix, read_matrix
from models.quant_types import TensorType
from models.quantize_log import ALIGNMENT, DryRunLog, begun, needs_imatrix, padded
from models.quantize_messages import (
    Answer,
    DryRunRequest,
    LastWords,
    Made,
    MakeRequest,
    NotMade,
    Planned,
    Request,
    TensorBegun,
)

_LEVEL_ERROR, _LEVEL_CONT = 4, 5
_MAX_BUFFER_BYTES = 512 * 2**20  # rows in memory at once; llama.cpp's own limit is 8 GiB
_QUANTIZATION_VERSION = 2
_NICENESS = 5  # a chat that runs meanwhile goes first
_ERROR_LINES = 12

_keep_alive: list[Any] = []  # callbacks must outlive the library's use of them


def run_worker(connection: Connection) -> None:
    """Answer one request, and end with whoever waits for it."""
    _prepare_process()
    with contextlib.suppress(EOFError, OSError):
        request = msgspec.msgpack.decode(connection.recv_bytes(), type=Request)
        temporary = Path(request.output) if isinstance(request, MakeRequest) else None
        is_made = threading.Event()
        threading.Thread(target=_end_with, args=(connection, temporary, is_made), daemon=True).start()
        send = _sender(connection)
        try:
            worker = _Worker(send, is_made)
            if isinstance(request, DryRunRequest):
                worker.dry_run(request)
            else:
                worker.make(request)
        except ImatrixFault as fault:
            send(NotMade(reason=str(fault), is_imatrix=True))
        except Exception as error:  # the process is for this one thing: whatever it is, it is why it was not done
            send(NotMade(reason=str(error) or type(error).__name__))
        connection.close()
    os._exit(0)  # the thread still reads, and native threads may be on their way


def _prepare_process() -> None:
    os.environ["GGML_NO_BACKTRACE"] = "1"  # else an abort starts a debugger, for seconds
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the other end decides
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of gigabytes would take a while
        with contextlib.suppress(OSError):
            os.nice(_NICENESS)


def _end_with(connection: Connection, temporary: Path | None, is_made: threading.Event) -> None:
    """Wait until the other side is gone; then a file that is still being written is of no use."""
    with contextlib.suppress(OSError, EOFError):
        connection.recv_bytes()
    if temporary is not None and not is_made.is_set():
        with contextlib.suppress(OSError):
            temporary.unlink()
    os._exit(1)


def _sender(connection: Connection) -> Callable[[Answer], None]:
    lock = threading.Lock()

    def send(answer: Answer) -> None:
        with lock:
            connection.send_bytes(msgspec.msgpack.encode(answer))

    return send


class _NativeLog:
    """Hears llama.cpp: its errors are kept, and each line is offered to a listener."""

    def __init__(self) -> None:
        self.errors: deque[str] = deque(maxlen=_ERROR_LINES)
        self.listener: Callable[[str], None] = lambda text: None
        self.fault: Exception | None = None  # of the listener
        self._level = 0

    def write(self, level: int, data: bytes) -> None:
        """Take a piece of the log; called by native code, to which an exception would return garbage."""
        if level != _LEVEL_CONT:
            self._level = level
        text = data.decode("utf-8", "replace")
        if self._level == _LEVEL_ERROR and text.strip(" \n="):
            self.errors.append(text.strip())
        try:
            self.listener(text)
        except Exception as error:
            self.fault = error

    @property
    def reason(self) -> str:
        """What the errors say, without the names of functions."""
        text = self.errors[-1] if self.errors else "llama.cpp gave no reason"
        return text.rpartition("failed to quantize: ")[2] or text


class _Worker:
    def __init__(self, send: Callable[[Answer], None], is_made: threading.Event) -> None:
        self._send = send
        self._is_made = is_made
        self._log = _NativeLog()
        self._library = _load_library(self._log, send)
        self._gguf = _Gguf(self._library)
        self._alignment = ALIGNMENT
        self._kept: list[Any] = []  # what native code is given must outlive the call

    def dry_run(self, request: DryRunRequest) -> None:
        """Plan each type."""
        matrix = self._matrix(request.imatrix, request.builds_imatrix)
        self._alignment = self._gguf.alignment(request.parts[0])
        head_bytes = self._gguf.head_bytes(request.parts)
        for file_type in request.file_types:
            self._send(self._plan(request, file_type, matrix, head_bytes))

    def make(self, request: MakeRequest) -> None:
        """Write the file."""
        self._log.listener = self._tell_tensor
        matrix = self._matrix(request.imatrix, False)
        self._alignment = self._gguf.alignment(request.source)
        params = self._params(request.file_type, matrix)
        params.nthread = request.n_threads
        if self._quantize(request.source, request.output, params):
            self._is_made.set()  # from here on the file belongs to the other side
            self._send(Made())
        else:
            self._send(NotMade(reason=self._log.reason, lines=tuple(self._log.errors)))

    def _tell_tensor(self, text: str) -> None:
        tensor = begun(text)
        if tensor is not None:
            self._send(TensorBegun(number=tensor.number, num_tensors=tensor.num_tensors))

    def _plan(self, request: DryRunRequest, file_type: int, matrix: MatrixValues | None, head_bytes: int) -> Answer:
        listener = DryRunLog()
        self._log.listener = listener.hear
        self._log.errors.clear()
        params = self._params(file_type, matrix)
        params.dry_run = True
        if not self._quantize(request.parts[0], os.devnull, params):
            return NotMade(reason=self._log.reason, lines=tuple(self._log.errors))
        if self._log.fault is not None:
            return NotMade(reason=f"what llama.cpp would do with it is not understood ({self._log.fault!r})")
        tensors = tuple(listener.tensors)
        needing = [tensor for tensor in tensors if needs_imatrix(tensor, file_type)]
        if matrix is not None and not request.builds_imatrix:
            check_matrix(matrix, tensors, {tensor.name for tensor in needing}, listener.shapes)
        data = sum(padded(tensor.num_bytes) for tensor in tensors)
        return Planned(
            file_type=file_type,
            output_bytes=head_bytes + data,
            tensors=tensors,
            num_fallback=listener.num_fallback,
            needs_imatrix=bool(needing),
        )

    def _quantize(self, source: str, output: str, params: Any) -> bool:
        status = self._library.llama_model_quantize(os.fsencode(source), os.fsencode(output), ctypes.byref(params))
        return bool(status == 0)

    def _matrix(self, path: str | None, is_to_be_built: bool) -> MatrixValues | None:
        if path is not None:
            return read_matrix(Path(path), self._gguf)
        # That there is one decides the types of some tensors; what is in it is only looked at when the file is made.
        return {"": np.ones(1, np.float32)} if is_to_be_built else None

    def _params(self, file_type: int, matrix: MatrixValues | None) -> Any:
        params = self._library.llama_model_quantize_default_params()
        params.ftype = file_type
        params.allow_requantize = True
        params.max_buf_size = _MAX_BUFFER_BYTES
        self._kept = []
        if matrix is not None:
            entries = (self._library.llama_model_imatrix_data * (len(matrix) + 1))()
            for entry, (name, values) in zip(entries, matrix.items(), strict=False):
                entry.name, entry.size = name.encode(), len(values)
                entry.data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            params.imatrix = ctypes.cast(entries, ctypes.POINTER(self._library.llama_model_imatrix_data))
            self._kept.append(entries)
        if self._alignment != ALIGNMENT:
            # Its key is copied while the data is padded as usual, and nobody could read the file.
            overrides = (self._library.llama_model_kv_override * 2)()
            overrides[0].tag, overrides[0].key = 0, b"general.alignment"
            overrides[0].value.val_i64 = ALIGNMENT
            params.kv_overrides = ctypes.cast(overrides, ctypes.POINTER(self._library.llama_model_kv_override))
            self._kept.append(overrides)
        return params


class _InitParams(ctypes.Structure):
    """`gguf_init_params`."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.POINTER(ctypes.c_void_p)))


class _Gguf:
    """llama.cpp's own reader and writer of heads: what it writes is then as long as it was said to be.

    Args:
        library: the binding's low-level module; its handle knows the symbols of what it is linked with.
    """

    def __init__(self, library: Any) -> None:
        self._handle = library._lib

    def call(self, name: str, result: Any, *arguments: tuple[Any, Any]) -> Any:
        """Call a function of which the binding knows nothing.

        Args:
            arguments: type and value of each.
        """
        kinds = [kind for kind, _ in arguments]
        function = ctypes.CFUNCTYPE(result, *kinds)((name, self._handle))
        return function(*(value for _, value in arguments))

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[tuple[int, ctypes.c_void_p]]:
        """Yield a head, and the list of its tensors without their data."""
        tensors = ctypes.c_void_p()
        params = _InitParams(True, ctypes.pointer(tensors))
        head = self.call(
            "gguf_init_from_file", ctypes.c_void_p, (ctypes.c_char_p, os.fsencode(path)), (_InitParams, params)
        )
        if not head:
            raise RuntimeError(f"{Path(path).name} is no GGUF file")
        try:
            yield head, tensors
        finally:
            self.call("gguf_free", None, (ctypes.c_void_p, head))
            self.call("ggml_free", None, (ctypes.c_void_p, tensors))

    def alignment(self, path: str) -> int:
        """Return what the tensors of a file are aligned to."""
        with self.opened(path) as (head, _):
            return int(self.call("gguf_get_alignment", ctypes.c_size_t, (ctypes.c_void_p, head)))

    def places(self, path: str) -> list[TensorPlace]:
        """See HeadReader."""
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        found = []
        with self.opened(path) as (head, _):
            begin = self.call("gguf_get_data_offset", ctypes.c_size_t, (pointer, head))
            for index in range(self.call("gguf_get_n_tensors", number, (pointer, head))):
                place = ((pointer, head), (number, index))
                name = self.call("gguf_get_tensor_name", ctypes.c_char_p, *place)
                found.append(
                    TensorPlace(
                        name=name.decode("utf-8", "replace"),
                        is_float=self.call("gguf_get_tensor_type", ctypes.c_int, *place) == TensorType.F32,
                        offset=begin + self.call("gguf_get_tensor_offset", ctypes.c_size_t, *place),
                        num_bytes=self.call("gguf_get_tensor_size", ctypes.c_size_t, *place),
                    )
                )
        return found

    def head_bytes(self, parts: Sequence[str]) -> int:
        """Return the size of the head of a file that is made of these parts of a model."""
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        made = self.call("gguf_init_empty", pointer)
        try:
            with self.opened(parts[0]) as (head, _):
                self.call("gguf_set_kv", None, (pointer, made), (pointer, head))
            numbers = {b"general.quantization_version": _QUANTIZATION_VERSION, b"general.file_type": 0}
            if self.alignment(parts[0]) != ALIGNMENT:
                numbers[b"general.alignment"] = ALIGNMENT
            for key, value in numbers.items():
                self.call("gguf_set_val_u32", None, (pointer, made), (text, key), (ctypes.c_uint32, value))
            for key in (b"split.no", b"split.count", b"split.tensors.count"):
                self.call("gguf_remove_key", ctypes.c_int64, (pointer, made), (text, key))
            for path in parts:
                with self.opened(path) as (_, tensors):
                    tensor = self.call("ggml_get_first_tensor", pointer, (pointer, tensors))
                    while tensor:
                        self.call("gguf_add_tensor", None, (pointer, made), (pointer, tensor))
                        tensor = self.call("ggml_get_next_tensor", pointer, (pointer, tensors), (pointer, tensor))
            return int(self.call("gguf_get_meta_size", ctypes.c_size_t, (pointer, made)))
        finally:
            self.call("gguf_free", None, (pointer, made))


def _load_library(log: _NativeLog, send: Callable[[Answer], None]) -> Any:
    """Return the binding's low-level module without running the package's own start-up, which logs for itself."""
    if "llama_cpp" not in sys.modules:
        spec = importlib.util.find_spec("llama_cpp")
        if spec is None:
            raise RuntimeError("llama-cpp-python is not installed")
        sys.modules["llama_cpp"] = importlib.util.module_from_spec(spec)  # made, but never executed
    import llama_cpp.llama_cpp as module

    def on_log(level: int, text: bytes, user_data: object) -> None:
        log.write(level, text)

    def on_abort(message: bytes) -> None:
        with contextlib.suppress(Exception):
            send(LastWords(text=message.decode("utf-8", "replace").strip()))

    log_callback = module.llama_log_callback(on_log)
    abort_callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(on_abort)
    _keep_alive.extend((log_callback, abort_callback))
    module.llama_log_set(log_callback, None)
    module._lib.ggml_set_abort_callback.restype = None
    module._lib.ggml_set_abort_callback(abort_callback)
    module.llama_backend_init()
    return module
