"""What the vocabulary of a file is, and in what two of them differ: only where they do not are token numbers the same.

Texts are hashed and compared as they lie in the header, so that a quarter of a million take milliseconds, and no file
can claim more of them than is read here. What is put around a text where a file does not say was read off llama.cpp:
llama_vocab_get_add_bos() and its like, asked of vocabularies without these keys.
"""

import dataclasses
import hashlib
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from models.errors import CorruptGGUF, TruncatedGGUF
from models.gguf_info import GGUFInfo, printable, read_header
from models.gguf_values import ArrayValue, Value, ValueType

MAX_TEXTS_BYTES = 64 * 2**20  # ten times the largest there is
_CHUNK_BYTES = 1 << 20
_ARRAY_HEAD_BYTES = 12  # type and number of the elements, which are hashed too
_SHOWN_CHARACTERS = 24
_AGAIN = "Download or copy the file again."


class _Around(NamedTuple):
    """What a kind of tokeniser puts around a text where the file does not say; -1 is no token."""

    adds_bos: bool
    adds_eos: bool
    bos_id: int
    eos_id: int


_AROUND = {
    "llama": _Around(True, False, 1, 2),
    "gpt2": _Around(False, False, 11, 11),
    "gemma4": _Around(True, False, -1, -1),
    "bert": _Around(True, False, 101, -1),
    "t5": _Around(False, True, -1, 1),
}
_NOTHING_AROUND = _Around(False, False, -1, -1)
_PRE_WITH_BOS = frozenset(
    {
        *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"),
        *("chameleon", "gemma4", "granite-embed-multi-311m", "tekken"),
    }
)
_PRE_WITHOUT_BOS = frozenset({"glm4", "glm5", "chatglm-bpe"})


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens of a file.

    Attributes:
        kind: of its tokeniser, such as "gpt2".
        span: where in the file the texts begin, each with its length before it, and how many bytes they take.
        bos_id, eos_id: the tokens that begin and end a text, -1 where there is none.
        adds_bos, adds_eos: whether they are put around every text.
        texts_hash: SHA-256 of the texts and their number, as the header has them.
    """

    path: Path
    kind: str
    num_tokens: int
    span: tuple[int, int]
    bos_id: int
    eos_id: int
    adds_bos: bool
    adds_eos: bool
    texts_hash: str


def vocabulary_hash(info: GGUFInfo) -> str:
    """Return the SHA-256 of a file's vocabulary as it stands in its header, "" where it has none.

    Raises:
        GGUFError: the file has changed, and is no sound one any more, or its vocabulary is impossibly large.
        OSError: it cannot be read.
    """
    tokens = _tokens(read_header(info.path)[1].values)
    return _hash_of(info.path, tokens) if tokens is not None else ""


def read_vocabulary(path: Path, values: Mapping[str, Value]) -> Vocabulary | None:
    """Return the vocabulary of a file whose header was read, None where it has none.

    Raises:
        GGUFError: it cannot be one.
        OSError: the file cannot be read.
    """
    tokens = _tokens(values)
    if tokens is None:
        return None
    kind = values.get("tokenizer.ggml.model")
    kind = printable(kind[:_SHOWN_CHARACTERS]) if isinstance(kind, str) else ""
    usual = _usual_around(kind, values.get("tokenizer.ggml.pre"))
    reader = _KeyReader(path, values, tokens.num_elements)
    return Vocabulary(
        path=path,
        kind=kind,
        num_tokens=tokens.num_elements,
        span=(tokens.position, tokens.num_bytes),
        bos_id=reader.token("bos_token_id", usual.bos_id),
        eos_id=reader.token("eos_token_id", usual.eos_id),
        adds_bos=reader.flag("add_bos_token", default=usual.adds_bos),
        adds_eos=reader.flag("add_eos_token", default=usual.adds_eos),
        texts_hash=_hash_of(path, tokens),
    )


def first_difference(one: Vocabulary, other: Vocabulary) -> tuple[int, str, str] | None:
    """Return the first token whose text differs, with both texts fit to be shown; None where all shared ones are equal.

    Raises:
        GGUFError: a file has changed meanwhile.
        OSError: one cannot be read.
    """
    if one.texts_hash == other.texts_hash:
        return None
    count = min(one.num_tokens, other.num_tokens)
    with one.path.open("rb") as first, other.path.open("rb") as second:
        pieces = zip(_pieces(first, one), _pieces(second, other), strict=False)
        # Equal texts are equal bytes, lengths included: as long as these are, no text has to be looked at.
        if all(a == b or _is_cut(a, b) for a, b in pieces):
            return None
        for number, (ours, theirs) in enumerate(zip(_texts(first, one), _texts(second, other), strict=False)):
            if number == count:
                break
            if ours != theirs:
                return number, _shown(ours), _shown(theirs)
    return None


def _usual_around(kind: str, pre: Value | None) -> _Around:
    usual = _AROUND.get(kind, _NOTHING_AROUND)
    if kind == "gpt2" and pre in _PRE_WITH_BOS:
        return usual._replace(adds_bos=True)
    return usual._replace(bos_id=-1) if kind == "gpt2" and pre in _PRE_WITHOUT_BOS else usual


def _tokens(values: Mapping[str, Value]) -> ArrayValue | None:
    tokens = values.get("tokenizer.ggml.tokens")
    is_list = isinstance(tokens, ArrayValue) and tokens.element_type is ValueType.STRING and tokens.num_elements > 0
    return tokens if is_list else None  # type: ignore[return-value]


def _hash_of(path: Path, tokens: ArrayValue) -> str:
    name = printable(path.name)
    if tokens.num_bytes > MAX_TEXTS_BYTES:
        raise CorruptGGUF(
            f"{name} is damaged: its vocabulary takes {tokens.num_bytes:,} bytes, more than any model's.", _AGAIN
        )
    digest, left = hashlib.sha256(), _ARRAY_HEAD_BYTES + tokens.num_bytes
    with path.open("rb", buffering=0) as file:
        file.seek(tokens.position - _ARRAY_HEAD_BYTES)
        while left and (data := file.read(min(left, _CHUNK_BYTES))):
            digest.update(data)
            left -= len(data)
    if left:
        raise TruncatedGGUF(f"{name} has become shorter while it was read.", _AGAIN)
    return digest.hexdigest()


class _KeyReader:
    def __init__(self, path: Path, values: Mapping[str, Value], num_tokens: int) -> None:
        self._path, self._values, self._num_tokens = path, values, num_tokens

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._values.get(f"tokenizer.ggml.{name}", default)
        if not isinstance(value, bool):  # llama.cpp does not load it
            raise CorruptGGUF(f"{printable(self._path.name)} is damaged: its {name} is neither yes nor no.", _AGAIN)
        return value

    def token(self, name: str, default: int) -> int:
        """Return the number of a token; one that does not exist is passed over, as llama.cpp does."""
        value = self._values.get(f"tokenizer.ggml.{name}")
        is_token = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < self._num_tokens
        return int(value) if is_token else default  # type: ignore[arg-type]


def _pieces(file: BinaryIO, vocabulary: Vocabulary) -> Iterator[bytes]:
    """Yield the texts as they lie in the file, a chunk at a time."""
    position, left = vocabulary.span
    file.seek(position)
    while left:
        data = file.read(min(left, _CHUNK_BYTES))
        if not data:
            raise _changed(vocabulary)
        left -= len(data)
        yield data


def _is_cut(one: bytes, other: bytes) -> bool:
    """Return whether one of two chunks is the beginning of the other: there the shorter vocabulary ends."""
    return one.startswith(other) or other.startswith(one)


def _texts(file: BinaryIO, vocabulary: Vocabulary) -> Iterator[bytes]:
    position, left = vocabulary.span
    file.seek(position)
    data, at = file.read(left), 0
    for _ in range(vocabulary.num_tokens):
        if at + 8 > len(data):
            raise _changed(vocabulary)
        (length,) = struct.unpack_from("<Q", data, at)
        at += 8 + length
        if at > len(data):
            raise _changed(vocabulary)
        yield data[at - length : at]


def _changed(vocabulary: Vocabulary) -> TruncatedGGUF:
    return TruncatedGGUF(f"{printable(vocabulary.path.name)} has changed while it was read.", _AGAIN)


def _shown(text: bytes) -> str:
    shown = printable(text[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace"))
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"
