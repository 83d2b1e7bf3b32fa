"""Fireside's knowledge of model files: what a file is and where models are found. Knows neither engine nor app."""

from models.errors import (
    CorruptGGUF,
    GGUFError,
    MissingParts,
    ModelsError,
    NotAChatModel,
    NotGGUF,
    NotQuantizable,
    QuantizeError,
    QuantizeRefused,
    TruncatedGGUF,
    UnsupportedGGUF,
)
from models.fingerprint import fingerprint, template_hash
from models.gguf_info import GGUFInfo, check_is_chat_model, missing_parts, read_gguf_info
from models.hyperparameters import Hyperparameters
from models.model_kinds import ModelKind
from models.quantize import QuantizeEnd, QuantizeProgress, QuantizeResult, QuantizeRun
from models.quantize_messages import PlannedTensor
from models.quantize_plan import QuantizePlan, default_output, plan_ladder, plan_quantize
from models.quantize_types import QUANTIZE_TYPES, QuantizeType, find_quantize_type
from models.sources.starter import STARTER_INSTALL, STARTER_LABEL, STARTER_LICENCE, STARTER_NAME, find_starter

__all__ = [
    "QUANTIZE_TYPES",
    "STARTER_INSTALL",
    "STARTER_LABEL",
    "STARTER_LICENCE",
    "STARTER_NAME",
    "CorruptGGUF",
    "GGUFError",
    "GGUFInfo",
    "Hyperparameters",
    "MissingParts",
    "ModelKind",
    "ModelsError",
    "NotAChatModel",
    "NotGGUF",
    "NotQuantizable",
    "PlannedTensor",
    "QuantizeEnd",
    "QuantizeError",
    "QuantizePlan",
    "QuantizeProgress",
    "QuantizeRefused",
    "QuantizeResult",
    "QuantizeRun",
    "QuantizeType",
    "TruncatedGGUF",
    "UnsupportedGGUF",
    "check_is_chat_model",
    "default_output",
    "find_quantize_type",
    "find_starter",
    "fingerprint",
    "missing_parts",
    "plan_ladder",
    "plan_quantize",
    "read_gguf_info",
    "template_hash",
]
