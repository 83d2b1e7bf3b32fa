"""The messages about an importance matrix: the command that builds one, and what it is answered with."""

import msgspec


class BuildImportance(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Compute the importance matrix of the loaded model on a text and write it to a file, for quantising.

    Answered by ImportanceProgress, then ImportanceBuilt, ImportanceCancelled (after Abort) or Failed. Nothing else is
    computed meanwhile; refused while requests run.

    Attributes:
        path: of the file, whose folder must be there.
        text: empty takes the text that comes with the program.
        text_name: what the file says it was computed on.
        max_chunks: how many pieces of 512 tokens to read at most; 0 reads all.
    """

    request_id: str
    path: str
    text: str = ""
    text_name: str = ""
    max_chunks: int = 0


class ImportanceProgress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How many pieces of the text an importance matrix has read."""

    request_id: str
    num_chunks_done: int
    num_chunks: int


class ImportanceBuilt(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to BuildImportance: the file is there.

    Attributes:
        num_tokens: read, in so many chunks.
        num_tensors: for which it holds values.
    """

    request_id: str
    path: str
    num_chunks: int
    num_tokens: int
    num_tensors: int
    seconds: float


class ImportanceCancelled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The importance matrix was given up, and there is no file of it."""

    request_id: str
