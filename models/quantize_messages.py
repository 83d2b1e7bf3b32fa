"""What goes between a program that has models quantised and the process that does it: msgpack of declared types."""

import msgspec


class PlannedTensor(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor of a file to be made.

    Attributes:
        source_type, type_name: before and after, for example "F16" and "Q4_K".
        num_bytes: it will have, without padding.
    """

    name: str
    source_type: str
    type_name: str
    num_elements: int
    num_bytes: int


class DryRunRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Plan each of some types; answered by a Planned or NotMade for each, in their order.

    Attributes:
        parts: the files of the source, in their order.
        file_types: llama.cpp's numbers.
        imatrix: file of an importance matrix, read and checked against the source.
        builds_imatrix: whether there will be one that belongs to the source.
    """

    parts: tuple[str, ...]
    file_types: tuple[int, ...]
    imatrix: str | None = None
    builds_imatrix: bool = False


class MakeRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Write one file; answered by TensorBegun for each tensor, then Made or NotMade.

    Attributes:
        output: a temporary name, removed by the process when nobody is left who waits for it.
    """

    source: str
    output: str
    file_type: int
    imatrix: str | None = None
    n_threads: int = 1


class Planned(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a type would make.

    Attributes:
        output_bytes: exact size of the file.
        num_fallback: tensors whose rows the type does not divide, and that get another one.
        needs_imatrix: whether it can only be made with an importance matrix.
    """

    file_type: int
    output_bytes: int
    tensors: tuple[PlannedTensor, ...]
    num_fallback: int
    needs_imatrix: bool


class TensorBegun(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A tensor is being written; number counts from 1."""

    number: int
    num_tensors: int


class Made(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The file is written."""


class NotMade(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It could not be done.

    Attributes:
        reason: completes "SOURCE cannot be quantised: ".
        is_imatrix: whether it is the importance matrix that is wrong; the reason is then a sentence.
        lines: what llama.cpp said of it.
    """

    reason: str
    is_imatrix: bool = False
    lines: tuple[str, ...] = ()


class LastWords(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What llama.cpp said before it ended the process."""

    text: str


Request = DryRunRequest | MakeRequest
Answer = Planned | TensorBegun | Made | NotMade | LastWords
