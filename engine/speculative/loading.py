"""Loading a draft model beside the model it drafts for: the same context and number of chats, the same vocabulary."""

import time
from pathlib import Path

import msgspec

from engine.backend import Backend, Loader
from engine.errors import DraftMismatch
from engine.messages import DraftDescription, SetDraft
from engine.speculative.draft_model import ModelDrafter, check_vocabulary


def load_drafter(loader: Loader, target: Backend, command: SetDraft) -> tuple[ModelDrafter, DraftDescription]:
    """Load the draft model that a command names.

    Args:
        loader: not the one that loaded the target.

    Raises:
        SpeculativeError: it cannot draft for this model.
        ModelLoadError: it cannot be loaded.
    """
    assert command.path is not None
    began = time.perf_counter()
    described = target.description
    params = msgspec.structs.replace(
        command.params, n_ctx=described.n_ctx, n_seq_max=described.n_seq_max, n_batch=described.n_batch
    )
    backend = loader.load(command.path, params, lambda share: True)
    assert backend is not None, "it is never given up"
    try:
        if backend.description.n_ctx < described.n_ctx:
            raise DraftMismatch(
                f"{Path(command.path).name} has too little room for a draft beside this model.",
                "Load the model with a smaller context.",
            )
        check_vocabulary(target.vocabulary, backend.vocabulary)
        drafter = ModelDrafter(backend, vocabulary_size=len(target.vocabulary.pieces))
    except Exception:
        backend.close()
        raise
    loaded = backend.description
    return drafter, DraftDescription(
        path=command.path,
        name=loaded.name,
        type_name=loaded.type_name,
        device=loaded.device,
        weight_bytes=loaded.weight_bytes,
        total_bytes=loaded.weight_bytes + loaded.cache_bytes + loaded.compute_bytes,
        load_s=time.perf_counter() - began,
    )
