"""The error tree of the application; every error here can be shown to a person."""


class AppError(Exception):
    """Root of all errors of the application.

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


class UsageError(AppError):
    """A command was given something it cannot take."""


class SettingsError(AppError):
    """The settings could not be written."""


class DataFolderError(AppError):
    """The folder for the program's data cannot be used."""


class WindowNotAnswering(AppError):
    """Another window has these chats open and does not react."""


class ModelFileMissing(AppError):
    """There is no such model file."""


class ModelFileUnreadable(AppError):
    """The model file is there and cannot be read."""


class AdapterUnreadable(AppError):
    """An adapter file is not there, or cannot be read."""


class AttachmentError(AppError):
    """A file cannot be attached to a message."""


class ModelNameAmbiguous(AppError):
    """A name that several models of the library have."""


class StarterMissing(AppError):
    """The starter model is not installed."""


class RunError(AppError):
    """A run that was interrupted cannot be gone on with."""


class RunInUse(RunError):
    """Another program is going on with the run."""


class ReportNotSaved(AppError):
    """A report could not be written."""


class StoreError(AppError):
    """Chats could not be read or saved."""


class StoreDamaged(StoreError):
    """The file of chats is damaged."""


class StoreLocked(StoreError):
    """Another program holds the chats locked."""


class StoreTooNew(StoreError):
    """A newer version of the program wrote the chats."""


class StoreFull(StoreError):
    """There is no room to save chats."""


class StoreReadOnly(StoreError):
    """The chats cannot be written where they lie."""
