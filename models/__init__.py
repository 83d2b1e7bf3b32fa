"""Fireside's knowledge of model files: what a file is and where models are found. Knows neither engine nor app."""

from models.adapter_match import (
    AdapterBase,
    AdapterInfo,
    adapter_misfit,
    names_other_base,
    read_adapter_base,
    read_adapter_info,
)
from models.compute_buffer import compute_bytes
from models.draft_cost import ACCEPTANCE_PRIOR, LEAST_GAIN, DraftGain, cost_ratio, expected_gain, usual_step_costs
from models.draft_match import (
    DraftFile,
    Kinship,
    Refusal,
    draft_notes,
    draft_reason,
    entry_reason,
    has_state,
    kinship,
    read_draft_file,
    target_notes,
    target_reason,
)
from models.draft_memory import draft_bytes
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
    NotQuantizable,
    NotRemovable,
    QuantizeError,
    QuantizeRefused,
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
from models.quantize import QuantizeEnd, QuantizeProgress, QuantizeResult, QuantizeRun
from models.quantize_messages import PlannedTensor
from models.quantize_plan import QuantizePlan, default_output, plan_ladder, plan_quantize
from models.quantize_types import QUANTIZE_TYPES, QuantizeType, find_quantize_type
from models.repacking import repacked_types
from models.scan_roots import RootLayout, ScanRoot, find_roots
from models.sources.starter import STARTER_INSTALL, STARTER_LABEL, STARTER_LICENCE, STARTER_NAME, find_starter
from models.verifying import BadTensor, FileCheck, verify_file
from models.vocabulary import vocabulary_hash

__all__ = [
    "ACCEPTANCE_PRIOR",
    "CACHE_TYPES",
    "LEAST_GAIN",
    "QUANTIZE_TYPES",
    "STARTER_INSTALL",
    "STARTER_LABEL",
    "STARTER_LICENCE",
    "STARTER_NAME",
    "AdapterBase",
    "AdapterInfo",
    "BadTensor",
    "CacheBytes",
    "CacheSettings",
    "CorruptGGUF",
    "DraftFile",
    "DraftGain",
    "EntryInUse",
    "FileCheck",
    "FileContents",
    "Fit",
    "GGUFError",
    "GGUFInfo",
    "Hyperparameters",
    "KVLayout",
    "Kinship",
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
    "NotQuantizable",
    "NotRemovable",
    "PlannedTensor",
    "QuantizeEnd",
    "QuantizeError",
    "QuantizePlan",
    "QuantizeProgress",
    "QuantizeRefused",
    "QuantizeResult",
    "QuantizeRun",
    "QuantizeType",
    "Refusal",
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
    "adapter_misfit",
    "check_is_chat_model",
    "compute_bytes",
    "cost_ratio",
    "decode_rate",
    "default_output",
    "draft_bytes",
    "draft_notes",
    "draft_reason",
    "entry_reason",
    "expected_gain",
    "find_quantize_type",
    "find_roots",
    "find_starter",
    "fingerprint",
    "first_part",
    "fit",
    "has_state",
    "kinship",
    "match_entries",
    "missing_parts",
    "names_other_base",
    "parts_of",
    "plan_ladder",
    "plan_quantize",
    "read_adapter_base",
    "read_adapter_info",
    "read_contents",
    "read_draft_file",
    "read_gguf_info",
    "repacked_types",
    "short_count",
    "target_notes",
    "target_reason",
    "template_hash",
    "usual_step_costs",
    "verify_file",
    "vocabulary_hash",
]
