"""Whether two models have one vocabulary, told by a hash of its texts: only then do token numbers mean the same."""

import hashlib
import os

from models.gguf_header import HeaderReader
from models.gguf_info import GGUFInfo, printable
from models.gguf_values import ArrayValue

_TOKENS_KEY = "tokenizer.ggml.tokens"
_CHUNK_BYTES = 1 << 20


class _VocabularyReader(HeaderReader):
    """Notes where the texts stand: position and length, None where there are none."""

    span: tuple[int, int] | None = None

    def _array(self, key: str) -> ArrayValue:
        begin = self._position()
        value = super()._array(key)
        if key == _TOKENS_KEY:
            self.span = (begin, self._position() - begin)
        return value


def vocabulary_hash(info: GGUFInfo) -> str:
    """Return the SHA-256 of a file's vocabulary as it stands in its header, "" where it has none.

    Raises:
        GGUFError: the file has changed, and is no sound one any more.
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with info.path.open("rb", buffering=0) as file:
        reader = _VocabularyReader(file, os.fstat(file.fileno()).st_size, printable(info.path.name))
        reader.read()
        if reader.span is None:
            return ""
        position, left = reader.span
        file.seek(position)
        while left > 0 and (data := file.read(min(left, _CHUNK_BYTES))):
            digest.update(data)
            left -= len(data)
    return digest.hexdigest()
