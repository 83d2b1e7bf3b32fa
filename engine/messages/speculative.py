"""What a front end and a worker say to each other about the draft model."""

import msgspec

from engine.params import ModelParams


class SetDraft(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Let a model draft for the loaded one, or none any more; answered by DraftSet, LoadCancelled or Failed.

    It is loaded while replies are written; those that have begun by then go on without it, as all do where it cannot be
    used. CancelLoad, another SetDraft, and whatever ends the model it was set for give the load up.

    Attributes:
        path: of its GGUF file; None frees the one that is there, which also goes at once where another is named.
        params: its own device, layers and threads, 0 as many as the model's; context and number of chats are those of
            the model it drafts for.
    """

    request_id: str
    path: str | None
    params: ModelParams = ModelParams()


class DraftDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about a draft model when it was loaded.

    Attributes:
        total_bytes: its weights and its context.
        load_s: seconds from SetDraft to DraftSet.
    """

    path: str
    name: str
    type_name: str
    device: str
    weight_bytes: int
    total_bytes: int
    load_s: float


class DraftSet(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to SetDraft; None where there is no draft model now."""

    request_id: str
    draft: DraftDescription | None
