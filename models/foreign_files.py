"""What a file is that was taken for a GGUF file: told from its first bytes, with what to do about it."""

import dataclasses
import json
import struct

HEAD_BYTES = 4096

_GET_THE_FILE = "Download the file itself."
_CONVERT = "Get a GGUF file of the same model, or convert this one with llama.cpp's convert_hf_to_gguf.py."
_UNPACK = "Unpack it, and open the .gguf file inside."
_EXCERPT_CHARACTERS = 80


@dataclasses.dataclass(frozen=True)
class ForeignFile:
    """A recognised file that is no GGUF.

    Attributes:
        what: completes "FILE is ...".
        hint: what to do, one sentence.
    """

    what: str
    hint: str


# The first bytes are the magic numbers of llama.cpp before GGUF, in the order in which they lie on disk.
_MAGICS: tuple[tuple[bytes, ForeignFile], ...] = (
    (b"lmgg", ForeignFile("a model in an old format (ggml)", _CONVERT)),
    (b"fmgg", ForeignFile("a model in an old format (ggmf)", _CONVERT)),
    (b"tjgg", ForeignFile("a model in an old format (ggjt)", _CONVERT)),
    (b"algg", ForeignFile("an adapter in an old format (ggla)", _CONVERT)),
    (b"ggml", ForeignFile("a model in an old format (ggml)", _CONVERT)),
    (b"ggmf", ForeignFile("a model in an old format (ggmf)", _CONVERT)),
    (b"ggjt", ForeignFile("a model in an old format (ggjt)", _CONVERT)),
    (b"FUGG", ForeignFile("a GGUF file whose bytes stand in the wrong order", _GET_THE_FILE)),
    (b"\x80\x02", ForeignFile("a PyTorch checkpoint", _CONVERT)),
    (b"\x89HDF", ForeignFile("an HDF5 file", _CONVERT)),
    (b"\x1f\x8b", ForeignFile("a gzip archive", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", ForeignFile("a zstd archive", _UNPACK)),
    (b"\xfd7zXZ\x00", ForeignFile("an xz archive", _UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", ForeignFile("a 7z archive", _UNPACK)),
    (b"Rar!", ForeignFile("a RAR archive", _UNPACK)),
    (b"\x7fELF", ForeignFile("a program", _GET_THE_FILE)),
    (b"MZ", ForeignFile("a program", _GET_THE_FILE)),
    (b"%PDF", ForeignFile("a PDF document", _GET_THE_FILE)),
    (b"\x89PNG", ForeignFile("a picture", _GET_THE_FILE)),
    (b"\xff\xd8\xff", ForeignFile("a picture", _GET_THE_FILE)),
    (b"GIF8", ForeignFile("a picture", _GET_THE_FILE)),
    (b"BZh", ForeignFile("a bzip2 archive", _UNPACK)),
    (b"\x93NUMPY", ForeignFile("an array of NumPy", _CONVERT)),
)
_POINTERS = ("version https://git-lfs", "version https://hawser", "version http://git-media")
_PAGES = ("<!doctype html", "<html", "<head", "<body", "<script", "<?xml", "<!--")
_ERROR_KEYS = frozenset({"error", "errors", "error_description", "message", "detail", "code", "status"})


def recognise(head: bytes, file_bytes: int) -> ForeignFile:
    """Return what the file is whose first HEAD_BYTES are `head`; an unknown one is called so."""
    for magic, foreign in _MAGICS:
        if head.startswith(magic):
            return foreign
    if head.startswith(b"PK"):
        return _zip(head)
    if _is_safetensors(head, file_bytes):
        return ForeignFile("a safetensors file", _CONVERT)
    if not head.strip(b"\0"):
        return ForeignFile("filled with zeros, as an unfinished download is", "Download it again.")
    text = _as_text(head)
    if text is not None:
        return _text(text, file_bytes)
    return ForeignFile("not a GGUF file", "Choose a file that ends in .gguf and was downloaded in full.")


def _zip(head: bytes) -> ForeignFile:
    if b"data.pkl" in head:
        return ForeignFile("a PyTorch checkpoint", _CONVERT)
    return ForeignFile("a zip archive", _UNPACK)


def _is_safetensors(head: bytes, file_bytes: int) -> bool:
    if len(head) < 10:
        return False
    (header_bytes,) = struct.unpack_from("<Q", head)
    return header_bytes <= file_bytes - 8 and head[8:].lstrip().startswith(b'{"')


def _as_text(head: bytes) -> str | None:
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    # The head may end inside a character.
    text = head.decode(encoding, errors="ignore" if len(head) == HEAD_BYTES else "replace")
    is_text = "\ufffd" not in text and all(c.isprintable() or c.isspace() for c in text)
    return text.strip() if is_text else None


def _text(text: str, file_bytes: int) -> ForeignFile:
    lowered = text[:256].lower()
    if text.startswith(_POINTERS):
        return ForeignFile(
            "a Git LFS pointer, not the model it stands for",
            "Download the file itself, with `git lfs pull` or from the model's page.",
        )
    if text.startswith("# xet version"):
        return ForeignFile("a Xet pointer, not the model it stands for", "Download the file itself, from its page.")
    if not text:
        return ForeignFile("empty but for blanks", "Download it again.")
    if lowered.startswith(_PAGES) and "<error>" not in lowered:
        return ForeignFile(
            "a web page", "Use the download link of the page, and sign in first if the model asks for it."
        )
    excerpt = '"' + " ".join(text[:_EXCERPT_CHARACTERS].split()) + '"'
    if text.startswith(("{", "[")):
        return _json(text, excerpt)
    if file_bytes > HEAD_BYTES:
        return ForeignFile("a text file", _GET_THE_FILE)
    return ForeignFile(
        f"a text, probably an error text from a server: {excerpt}",
        "Download it again, and sign in first if the model asks for it.",
    )


def _json(text: str, excerpt: str) -> ForeignFile:
    if '"weight_map"' in text:
        return ForeignFile("the index of a safetensors model", _CONVERT)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):  # cut off after HEAD_BYTES, where an error text is shorter; or nonsense
        return ForeignFile("a JSON file of settings", _GET_THE_FILE)
    if not isinstance(parsed, dict):
        return ForeignFile("a JSON file", _GET_THE_FILE)
    if "model_type" in parsed or "architectures" in parsed:
        return ForeignFile("a JSON file of settings", _GET_THE_FILE)
    if parsed and _ERROR_KEYS.isdisjoint(map(str.lower, parsed)):
        return ForeignFile("a JSON file", _GET_THE_FILE)
    return ForeignFile(f"an error text from a server: {excerpt}", "Download it again, and sign in if the model asks.")
