"""Fireside's knowledge of model files: what a file is and where models are found. Knows neither engine nor app."""

from models.compute_buffer import compute_bytes
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
from models.file_contents import FileContents, MetadataRow, TensorRow, TypeTotal, read_contents
from models.fingerprint import fingerprint, template_hash
from models.gguf_info import GGUFInfo, check_is_chat_model, first_part, missing_parts, parts_of, read_gguf_info
from models.grouping import short_count
from models.hyperparameters import Hyperparameters
from models.kv_layout import CACHE_TYPES, CacheBytes, CacheSettings, KVLayout
from models.library import Library
from models.library_entry import LibraryEntry, LibraryScan, RemovedModel, ScanProblem, ScanProgress
from models.library_names import match_entries
from models.memory import Fit, Room, Verdict, Wish, decode_rate, fit
from models.model_kinds import ModelKind
from models.repacking import repacked_types
from models.scan_roots import RootLayout, ScanRoot, find_roots
from models.sources.starter import STARTER_INSTALL, STARTER_LABEL, STARTER_LICENCE, STARTER_NAME, find_starter
from models.verifying import BadTensor, FileCheck, verify_file

__all__ = [
    "CACHE_TYPES",
    "STARTER_INSTALL",
    "STARTER_LABEL",
    "STARTER_LICENCE",
    "STARTER_NAME",
    "BadTensor",
    "CacheBytes",
    "CacheSettings",
    "CorruptGGUF",
    "EntryInUse",
    "FileCheck",
    "FileContents",
    "Fit",
    "GGUFError",
    "GGUFInfo",
    "Hyperparameters",
    "KVLayout",
    "Library",
    "LibraryEntry",
    "LibraryError",
    "LibraryScan",
    "MetadataRow",
    "MissingParts",
    "ModelKind",
    "ModelsError",
    "NotAChatModel",
    "NotGGUF",
    "NotRemovable",
    "RemovedModel",
    "Room",
    "RootLayout",
    "ScanProblem",
    "ScanProgress",
    "ScanRoot",
    "TensorRow",
    "TruncatedGGUF",
    "TypeTotal",
    "UnsupportedGGUF",
    "Verdict",
    "Wish",
    "check_is_chat_model",
    "compute_bytes",
    "decode_rate",
    "find_roots",
    "find_starter",
    "fingerprint",
    "first_part",
    "fit",
    "match_entries",
    "missing_parts",
    "parts_of",
    "read_contents",
    "read_gguf_info",
    "repacked_types",
    "short_count",
    "template_hash",
    "verify_file",
]
