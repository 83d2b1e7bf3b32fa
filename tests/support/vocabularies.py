"""The chat templates and vocabularies of llama.cpp's own tests, as the installation keeps them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.backend_llama.library import library
from engine.backend_llama.vocabulary import LlamaVocabulary

FOLDER = Path(sys.prefix) / ".fireside" / "llama.cpp-models"
# Where there are none, tests get one that is missing: that is a failure and no reason to run nothing.
TEMPLATES = sorted((FOLDER / "templates").glob("*.jinja")) or [FOLDER / "missing.jinja"]
VOCABULARIES = sorted(FOLDER.glob("ggml-vocab-*.gguf")) or [FOLDER / "missing.gguf"]
NUM_TEMPLATES, NUM_VOCABULARIES = 70, 19  # of the version that pyproject.toml pins


@contextmanager
def loaded_vocabulary(path: Path) -> Iterator[LlamaVocabulary]:
    """Load the vocabulary of a file that holds nothing else."""
    native = library()
    params = native.llama_model_default_params()
    params.vocab_only = True
    model = native.llama_model_load_from_file(os.fsencode(path), params)
    assert model, f"{path} cannot be loaded"
    try:
        yield LlamaVocabulary(model)
    finally:
        native.llama_model_free(model)
