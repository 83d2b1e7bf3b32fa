"""The lines of the live numbers: name, what it is called, and what it means."""

from PySide6.QtCore import QT_TRANSLATE_NOOP

ROWS = (
    (
        "ttft",
        QT_TRANSLATE_NOOP("Readouts", "First token"),
        QT_TRANSLATE_NOOP(
            "Readouts", "From sending to the first token: on the engine's clock once the reply has ended."
        ),
    ),
    (
        "prompt",
        QT_TRANSLATE_NOOP("Readouts", "Prompt read"),
        QT_TRANSLATE_NOOP("Readouts", "Prompt tokens that were computed, and how fast."),
    ),
    (
        "reused",
        QT_TRANSLATE_NOOP("Readouts", "Reused"),
        QT_TRANSLATE_NOOP("Readouts", "Prompt tokens that were in the cache already and cost nothing."),
    ),
    (
        "thinking",
        QT_TRANSLATE_NOOP("Readouts", "Thought"),
        QT_TRANSLATE_NOOP("Readouts", "Time and tokens from the first token until thinking ended."),
    ),
    (
        "generated",
        QT_TRANSLATE_NOOP("Readouts", "Written"),
        QT_TRANSLATE_NOOP("Readouts", "Tokens of the reply and the time since its first token."),
    ),
    (
        "drafts",
        QT_TRANSLATE_NOOP("Readouts", "Drafts"),
        QT_TRANSLATE_NOOP(
            "Readouts", "Share of the drafted tokens that were accepted, and the tokens that a drafted step brought."
        ),
    ),
    (
        "speedup",
        QT_TRANSLATE_NOOP("Readouts", "Drafting"),
        QT_TRANSLATE_NOOP(
            "Readouts", "Speed against plain steps that were measured in between; drafting itself is counted."
        ),
    ),
    (
        "memory",
        QT_TRANSLATE_NOOP("Readouts", "KV cache"),
        QT_TRANSLATE_NOOP(
            "Readouts", "Memory of the context: the part in use, all of it, and the type of its numbers."
        ),
    ),
    (
        "worker",
        QT_TRANSLATE_NOOP("Readouts", "Engine"),
        QT_TRANSLATE_NOOP("Readouts", "Memory of the model's process, and the most it had since the model was loaded."),
    ),
    (
        "threads",
        QT_TRANSLATE_NOOP("Readouts", "Threads"),
        QT_TRANSLATE_NOOP("Readouts", "Threads that compute replies, and why not more."),
    ),
)
ONLY_WHERE_KNOWN = ("thinking", "drafts", "speedup", "worker")
