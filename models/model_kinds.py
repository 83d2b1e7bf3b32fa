"""What a GGUF file is for: the kinds, how they are told apart, and why most of them cannot chat."""

import enum

from models.gguf_header import Header


class ModelKind(enum.Enum):
    """What a GGUF file is for."""

    TEXT = "text model"
    EMBEDDING = "embedding model"
    PROJECTOR = "projector"
    ADAPTER = "adapter"
    CONTROL_VECTOR = "control vector"
    IMPORTANCE_MATRIX = "importance matrix"
    VOCABULARY = "vocabulary"
    IMAGE = "image model"
    SPEECH = "speech model"
    DIFFUSION = "text diffusion model"
    DRAFT = "draft head"
    SPLIT_PART = "part of a split model"


# Kinds that llama.cpp would load as a model of their own, whose sizes are therefore checked.
RUNNABLE_KINDS = frozenset({ModelKind.TEXT, ModelKind.EMBEDDING, ModelKind.DIFFUSION})

_CHOOSE_ITS_MODEL = "Choose the text model it belongs to instead."

# For each kind that cannot chat: what it is, completing "FILE is ...", and what to do.
WHY_NO_CHAT: dict[ModelKind, tuple[str, str]] = {
    ModelKind.EMBEDDING: (
        "an embedding model, which turns text into numbers for search",
        "Choose a text-generating model, often marked `instruct` or `chat`.",
    ),
    ModelKind.PROJECTOR: (
        "a projector, which lets a text model see pictures or hear sound",
        "It belongs to a text model of the same name: choose that one.",
    ),
    ModelKind.ADAPTER: (
        "an adapter (LoRA), a small change to a base model",
        "Choose the base model it was trained on, then the adapter: in the inspector of the window, or with `--lora`.",
    ),
    ModelKind.CONTROL_VECTOR: ("a control vector, which steers a base model", _CHOOSE_ITS_MODEL),
    ModelKind.IMPORTANCE_MATRIX: ("an importance matrix, which is used to quantise a model", _CHOOSE_ITS_MODEL),
    ModelKind.VOCABULARY: (
        "a vocabulary without weights",
        "Choose the file of the whole model; it is much larger.",
    ),
    ModelKind.IMAGE: ("an image-generating model", "Choose a text-generating model, or open it in an image program."),
    ModelKind.SPEECH: ("a speech model", "Choose a text-generating model."),
    ModelKind.DIFFUSION: (
        "a text diffusion model, which does not write word after word",
        "Choose another text-generating model.",
    ),
    ModelKind.DRAFT: ("a draft head, which only speeds up another model", _CHOOSE_ITS_MODEL),
}

_ARCHITECTURES: dict[ModelKind, tuple[str, ...]] = {
    ModelKind.PROJECTOR: ("clip", "mmproj"),
    ModelKind.EMBEDDING: (
        "bert",
        "eurobert",
        "gemma-embedding",
        "jina-bert-v2",
        "jina-bert-v3",
        "llama-embed",
        "modern-bert",
        "neo-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "t5encoder",
    ),
    ModelKind.IMAGE: (
        "aura",
        "cosmos",
        "flux",
        "hidream",
        "hyvid",
        "ltxv",
        "lumina2",
        "qwen_image",
        "sd1",
        "sd3",
        "sdxl",
        "wan",
    ),
    ModelKind.SPEECH: ("pockettts", "qwen3tts", "wavtokenizer-dec", "whisper"),
    ModelKind.DIFFUSION: ("dream", "llada", "llada-moe", "rnd1"),
    ModelKind.DRAFT: ("dflash", "eagle3", "gemma4-assistant"),
    ModelKind.CONTROL_VECTOR: ("controlvector",),
}
_KIND_OF_ARCHITECTURE = {name: kind for kind, names in _ARCHITECTURES.items() for name in names}
_KIND_OF_TYPE = {
    "adapter": ModelKind.ADAPTER,
    "mmproj": ModelKind.PROJECTOR,
    "imatrix": ModelKind.IMPORTANCE_MATRIX,
    "vocab": ModelKind.VOCABULARY,
}
# `pooling_type`: mean, CLS, last token, rank. A decoder that was retrained to embed keeps its architecture.
_POOLING_TYPES = (1, 2, 3, 4)


def kind_of(header: Header, architecture: str, split_count: int) -> ModelKind:
    """Return what a file is for, told from its content and never from its name."""
    declared = header.values.get("general.type")
    kind = _KIND_OF_TYPE.get(declared.lower()) if isinstance(declared, str) else None
    if kind is None:
        kind = _KIND_OF_ARCHITECTURE.get(architecture)
    if kind is None and "adapter.type" in header.values:
        kind = ModelKind.ADAPTER
    if kind is None and header.num_tensors == 0 and split_count == 1:
        kind = ModelKind.VOCABULARY
    if kind is None and header.values.get(f"{architecture}.pooling_type") in _POOLING_TYPES:
        kind = ModelKind.EMBEDDING
    return kind or ModelKind.TEXT
