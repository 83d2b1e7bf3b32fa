"""How drafting is told to a person: what may draft, and what it did for a reply."""

from PySide6.QtCore import QCoreApplication

from app.desktop.rendering.plain import isolated, shortened
from app.desktop.widgets.choice_row import Option
from app.speculation import MAX_GPU_LAYERS
from engine import DraftMode, DraftState, SpeculativeStats

_MAX_REASON, _MAX_NAME = 300, 40


def mode_options() -> list[Option]:
    """Return what a person can choose from."""
    return [
        Option(DraftMode.OFF, _tr("Off"), _tr("Every token takes a step of its own.")),
        Option(DraftMode.AUTO, _tr("Automatic"), _tr("Whatever there is, while it is measurably not slower.")),
        Option(DraftMode.NGRAM, _tr("Own text"), _tr("What followed when the chat held the same words before.")),
        Option(DraftMode.MODEL, _tr("Draft model"), _tr("A smaller model with the same vocabulary.")),
        Option(DraftMode.BOTH, _tr("Both"), _tr("The chat's own words where they match for long, else the model.")),
    ]


def place_options() -> list[Option]:
    """Return where a draft model can be computed; the values are numbers of its layers on the graphics processor."""
    return [
        Option(None, _tr("As its model"), _tr("On the processor alone where the model is, else where it fits.")),
        Option(0, _tr("Processor")),
        Option(MAX_GPU_LAYERS, _tr("Graphics")),
    ]


def acceptance_text(stats: SpeculativeStats | None) -> str:
    """Return how much was accepted and how far a step got; empty where nothing was drafted."""
    rate = None if stats is None else stats.acceptance_rate
    length = None if stats is None else stats.mean_acceptance_length
    if rate is None or length is None:
        return ""
    return _tr("{share} % · {length} a step").format(share=f"{rate * 100:.0f}", length=f"{length:.1f}")


def speed_text(stats: SpeculativeStats | None) -> str:
    """Return how much faster than plain decoding it was; empty where that is not known."""
    if stats is None or stats.net_speedup is None or not stats.num_drafts or stats.state is DraftState.SLOWER:
        return ""
    return _tr("{speed}× plain").format(speed=f"{stats.net_speedup:.2g}")


def slower_text(stats: SpeculativeStats | None) -> str:
    """Say that drafting was given up, and by how much it lost where that is known; empty where it was not."""
    if stats is None or stats.state is not DraftState.SLOWER:
        return ""
    speedup = stats.net_speedup if stats.drafting_speedup is None else stats.drafting_speedup
    lost = 0 if speedup is None else round((1 - speedup) * 100)
    if lost <= 0:
        return _tr("Drafting off: it was slower on this chat")
    return _tr("Drafting off: it was {share} % slower on this chat").format(share=lost)


def reason_text(stats: SpeculativeStats | None) -> str:
    """Return why nothing could be drafted; empty where it could."""
    if stats is None or stats.state is not DraftState.UNAVAILABLE:
        return ""
    return isolated(shortened(stats.reason, _MAX_REASON))


def drafter_text(name: str) -> str:
    """Return what a drafter is called."""
    return {"ngram": _tr("Own text"), "model": _tr("Draft model")}.get(name) or isolated(shortened(name, _MAX_NAME))


def _tr(text: str) -> str:
    return QCoreApplication.translate("Drafting", text)
