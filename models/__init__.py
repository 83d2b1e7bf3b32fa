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
    GGUFError,
    MissingParts,
    ModelsError,
    NotAChatModel,
    NotAnAdapter,
    NotGGUF,
    TruncatedGGUF,
    UnsupportedGGUF,
)
from models.fingerprint import fingerprint, template_hash
from models.gguf_info import GGUFInfo, check_is_chat_model, missing_parts, read_gguf_info
from models.hyperparameters import Hyperparameters
from models.model_kinds import ModelKind
from models.sources.starter import STARTER_INSTALL, STARTER_LABEL, STARTER_LICENCE, STARTER_NAME, find_starter

__all__ = [
    "STARTER_INSTALL",
    "STARTER_LABEL",
    "STARTER_LICENCE",
    "STARTER_NAME",
    "AdapterBase",
    "AdapterInfo",
    "CorruptGGUF",
    "GGUFError",
    "GGUFInfo",
    "Hyperparameters",
    "MissingParts",
    "ModelKind",
    "ModelsError",
    "NotAChatModel",
    "NotAnAdapter",
    "NotGGUF",
    "TruncatedGGUF",
    "UnsupportedGGUF",
    "adapter_misfit",
    "check_is_chat_model",
    "find_starter",
    "fingerprint",
    "missing_parts",
    "names_other_base",
    "read_adapter_base",
    "read_adapter_info",
    "read_gguf_info",
    "template_hash",
]
