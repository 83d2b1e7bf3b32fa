"""Settings of a model and of a request: frozen, self-validating, with the metadata a panel is drawn from."""

from engine.params.cache import CacheParams
from engine.params.declare import ParamInfo, param_infos
from engine.params.model import CACHE_TYPES, FlashAttention, LoadMode, ModelParams, RopeScaling, SplitMode
from engine.params.sampling import SAMPLER_NAMES, SamplingParams
from engine.params.speculative import MAX_DRAFT, DraftMode, SpeculativeParams

__all__ = [
    "CACHE_TYPES",
    "MAX_DRAFT",
    "SAMPLER_NAMES",
    "CacheParams",
    "DraftMode",
    "FlashAttention",
    "LoadMode",
    "ModelParams",
    "ParamInfo",
    "RopeScaling",
    "SamplingParams",
    "SpeculativeParams",
    "SplitMode",
    "param_infos",
]
