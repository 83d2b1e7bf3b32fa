"""The error tree of the models package; every error here can be shown to a person."""


class ModelsError(Exception):
    """Root of all errors about model files.

    Attributes:
        message: what happened, one sentence.
        hint: what to do, one sentence, may be empty.
        details: evidence, may be empty.
    """

    def __init__(self, message: str, hint: str = "", details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details


class GGUFError(ModelsError):
    """A file cannot be used as a GGUF file."""


class NotGGUF(GGUFError):
    """The file is something else."""


class TruncatedGGUF(GGUFError):
    """The file ends before what its header promises."""


class CorruptGGUF(GGUFError):
    """The header holds something that cannot be."""


class UnsupportedGGUF(GGUFError):
    """A GGUF file of a version, byte order or tensor type that is not read."""


class NotAChatModel(ModelsError):
    """A sound GGUF file, but not one of a model that can chat."""


class NotAnAdapter(ModelsError):
    """A sound GGUF file, but not one of an adapter."""


class MissingParts(ModelsError):
    """A model is split over several files and some of them are not there."""


class LibraryError(ModelsError):
    """The library of models could not do what was asked."""


class NotRemovable(LibraryError):
    """A model that another program keeps, or the user: it is read in place and never touched."""


class EntryInUse(LibraryError):
    """A file of the model is in use."""


class NotQuantizable(ModelsError):
    """A sound GGUF file of a kind that cannot be quantised."""


class QuantizeError(ModelsError):
    """A file could not be quantised."""


class QuantizeRefused(QuantizeError):
    """What was asked for cannot be done, and nothing was begun."""
