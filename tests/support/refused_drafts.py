"""Files that cannot draft, one of each kind, beside a model that others can draft for."""

from pathlib import Path

from tests.support.gguf_files import write_other_kinds, write_tiny_mamba, write_tiny_model

# Kind -> a part of its one sentence.
REFUSED = {
    "other vocabulary": "another vocabulary",
    "embedding model": "embedding",
    "adapter": "adapter",
    "broken file": "is cut off",
    "recurrent model": "cannot be rewound",
}


def write_refused(folder: Path, kind: str) -> tuple[Path, Path]:
    """Write a model and a file of a kind, and return both."""
    target, draft = write_tiny_model(folder / "target.gguf", n_layer=2), folder / "draft é.gguf"
    match kind:
        case "other vocabulary":
            write_tiny_model(draft, vocab="spm")
        case "broken file":
            draft.write_bytes(target.read_bytes()[:3000])
        case "recurrent model":
            write_tiny_mamba(draft)
        case _:
            others = folder / "others"
            others.mkdir()
            write_other_kinds(others)["an embedding" if kind == "embedding model" else kind].rename(draft)
    return target, draft
