"""Fireside's knowledge of model files: what a file is and where models are found. Knows neither engine nor app."""

from models.errors import (
    CorruptGGUF,
    GGUFError,
    MissingParts,
    ModelsError,
    NotAChatModel,
    NotGGUF,
    TruncatedGGUF,
    UnsupportedGGUF,
)
from models.fingerprint import fingerprint, template_hash
from models.gguf_info import GGUFInfo, check_is_chat_model, missing_parts, read_gguf_info
from models.hyperparameters import Hyperparameters
from models.model_kinds import ModelKind
from models.sources.starter import STARTER_INSTALL, STARTER_LABEL, STARTER_LICENCE, STARTER_NAME, find_starter
from models.vocabulary import vocabulary_hash

__all__ = [
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
    "TruncatedGGUF",
    "UnsupportedGGUF",
    "check_is_chat_model",
    "find_starter",
    "fingerprint",
    "missing_parts",
    "read_gguf_info",
    "template_hash",
    "vocabulary_hash",
]
