"""What the path of a backend without weights can set."""

from dataclasses import dataclass, fields

from engine.messages import MemoryKind


@dataclass(frozen=True)
class FakeSettings:
    """What a `fake:` path can set: `n_words` is the length of every reply, `fail` and `bug` end its steps.

    With tells_threads=1 a token depends on how many threads computed the ones before.
    With can_trim=0 it is recurrent: one state a sequence. With a `window` it forgets all but the latest tokens, a
    micro-batch of slack aside.
    As a draft model it is right in a share of the tokens, `draft_right`.
    A sequence's part of a step with more than `same_to` tokens computes other logits than one token at a time.
    """

    step_s: float = 0.0
    token_s: float = 0.0
    load_s: float = 0.0
    can_trim: float = 1
    window: float = 0
    n_words: float = 24
    tells_threads: float = 0
    draft_right: float = 1.0
    same_to: float = 1e9
    fail: float = 0
    bug: float = 0

    @property
    def memory(self) -> MemoryKind:
        """What kind of memory it has."""
        if not self.can_trim:
            return MemoryKind.RECURRENT
        return MemoryKind.WINDOW if self.window else MemoryKind.PLAIN


def settings_of(path: str) -> FakeSettings:
    """Return the settings of a path; those of any that does not begin with `fake:` are the defaults."""
    if not path.startswith("fake:"):
        return FakeSettings()
    names = {field.name for field in fields(FakeSettings)}
    pairs = (item.partition("=") for item in path.removeprefix("fake:").split(",") if item)
    return FakeSettings(**{name: float(value) for name, _, value in pairs if name in names})
