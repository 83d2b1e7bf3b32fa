"""Fireside's knowledge of model files: what a file is and where models are found. Knows neither engine nor app."""

from models.errors import (
    CorruptGGUF,
    EntryInUse,
    GGUFError,
    LibraryError,
    MissingParts,
    ModelsError,
    NotAChatModel,
    NotGGUF,
    NotRemovable,
    TruncatedGGUF,
    UnsupportedGGUF,
)
from models.fingerprint import fingerprint, template_hash
from models.gguf_info import GGUFInfo, check_is_chat_model, missing_parts, read_gguf_info
from models.hyperparameters import Hyperparameters
from models.library import Library
from models.library_entry import LibraryEntry, LibraryScan, RemovedModel, ScanProblem, ScanProgress
from models.model_kinds import ModelKind
from models.scan_roots import RootLayout, ScanRoot, find_roots
from models.sources.starter import STARTER_INSTALL, STARTER_LABEL, STARTER_LICENCE, STARTER_NAME, find_starter

__all__ = [
    "STARTER_INSTALL",
    "STARTER_LABEL",
    "STARTER_LICENCE",
    "STARTER_NAME",
    "CorruptGGUF",
    "EntryInUse",
    "GGUFError",
    "GGUFInfo",
    "Hyperparameters",
    "Library",
    "LibraryEntry",
    "LibraryError",
    "LibraryScan",
    "MissingParts",
    "ModelKind",
    "ModelsError",
    "NotAChatModel",
    "NotGGUF",
    "NotRemovable",
    "RemovedModel",
    "RootLayout",
    "ScanProblem",
    "ScanProgress",
    "ScanRoot",
    "TruncatedGGUF",
    "UnsupportedGGUF",
    "check_is_chat_model",
    "find_roots",
    "find_starter",
    "fingerprint",
    "missing_parts",
    "read_gguf_info",
    "template_hash",
]
