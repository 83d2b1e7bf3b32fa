"""Fireside's knowledge of model files: what a file is and where models are found. Knows neither engine nor app."""

from models.adapter_match import (
    AdapterBase,
    AdapterInfo,
    adapter_misfit,
    names_other_base,
    read_adapter_base,
    read_adapter_info,
)
from models.errors import (
    CorruptGGUF,
    EntryInUse,
    GGUFError,
    LibraryError,
    MissingParts,
    ModelsError,
    NotAChatModel,
    NotAnAdapter,
    NotGGUF,
    NotRemovable,
    TruncatedGGUF,
    UnsupportedGGUF,
)
from models.file_contents import FileContents, MetadataRow, TensorRow, TypeTotal, read_contents
from models.fingerprint import fingerprint, template_hash
from models.gguf_info import GGUFInfo, check_is_chat_model, first_part, missing_parts, parts_of, read_gguf_info
from models.grouping import short_count
from models.hyperparameters import Hyperparameters
from models.library import Library
from models.library_entry import LibraryEntry, LibraryScan, RemovedModel, ScanProblem, ScanProgress
from models.library_names import match_entries
from models.model_kinds import ModelKind
from models.scan_roots import RootLayout, ScanRoot, find_roots
from models.sources.starter import STARTER_INSTALL, STARTER_LABEL, STARTER_LICENCE, STARTER_NAME, find_starter
from models.verifying import BadTensor, FileCheck, verify_file

__all__ = [
    "STARTER_INSTALL",
    "STARTER_LABEL",
    "STARTER_LICENCE",
    "STARTER_NAME",
    "AdapterBase",
    "AdapterInfo",
    "BadTensor",
    "CorruptGGUF",
    "EntryInUse",
    "FileCheck",
    "FileContents",
    "GGUFError",
    "GGUFInfo",
    "Hyperparameters",
    "Library",
    "LibraryEntry",
    "LibraryError",
    "LibraryScan",
    "MetadataRow",
    "MissingParts",
    "ModelKind",
    "ModelsError",
    "NotAChatModel",
    "NotAnAdapter",
    "NotGGUF",
    "NotRemovable",
    "RemovedModel",
    "RootLayout",
    "ScanProblem",
    "ScanProgress",
    "ScanRoot",
    "TensorRow",
    "TruncatedGGUF",
    "TypeTotal",
    "UnsupportedGGUF",
    "adapter_misfit",
    "check_is_chat_model",
    "find_roots",
    "find_starter",
    "fingerprint",
    "first_part",
    "match_entries",
    "missing_parts",
    "names_other_base",
    "parts_of",
    "read_adapter_base",
    "read_adapter_info",
    "read_contents",
    "read_gguf_info",
    "short_count",
    "template_hash",
    "verify_file",
]
