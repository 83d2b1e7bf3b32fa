"""Why tokens had to be read again, and where reused ones came from, in words."""

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from engine import CacheMissCause, CacheSource

_CAUSES = {
    CacheMissCause.FIRST_USE: QT_TRANSLATE_NOOP("CacheCauses", "this text is new"),
    CacheMissCause.EDITED: QT_TRANSLATE_NOOP("CacheCauses", "an earlier message changed"),
    CacheMissCause.SYSTEM_PROMPT_CHANGED: QT_TRANSLATE_NOOP("CacheCauses", "the system prompt changed"),
    CacheMissCause.TEMPLATE_CHANGED: QT_TRANSLATE_NOOP("CacheCauses", "the chat template writes earlier replies anew"),
    CacheMissCause.ADAPTER_CHANGED: QT_TRANSLATE_NOOP("CacheCauses", "the adapters changed"),
    CacheMissCause.SETTINGS_CHANGED: QT_TRANSLATE_NOOP("CacheCauses", "the settings changed"),
    CacheMissCause.TRIMMED: QT_TRANSLATE_NOOP("CacheCauses", "the context was trimmed"),
    CacheMissCause.EVICTED: QT_TRANSLATE_NOOP("CacheCauses", "other chats needed the room"),
    CacheMissCause.MODEL_RELOADED: QT_TRANSLATE_NOOP("CacheCauses", "the model was loaded anew"),
    CacheMissCause.UNSUPPORTED_BY_MODEL: QT_TRANSLATE_NOOP("CacheCauses", "this model cannot reuse it"),
    CacheMissCause.DAMAGED: QT_TRANSLATE_NOOP("CacheCauses", "the stored copy was damaged"),
}
_SOURCES = {
    CacheSource.NONE: QT_TRANSLATE_NOOP("CacheCauses", "nowhere"),
    CacheSource.SLOT: QT_TRANSLATE_NOOP("CacheCauses", "the model's cache"),
    CacheSource.RAM: QT_TRANSLATE_NOOP("CacheCauses", "a copy in memory"),
    CacheSource.DISK: QT_TRANSLATE_NOOP("CacheCauses", "a copy on disk"),
    CacheSource.RESPONSE: QT_TRANSLATE_NOOP("CacheCauses", "an earlier reply"),
}


def cause_text(cause: CacheMissCause) -> str:
    """Return why tokens had to be read, to follow "because"."""
    return QCoreApplication.translate("CacheCauses", str(_CAUSES[cause]))


def source_text(source: CacheSource) -> str:
    """Return where reused tokens came from."""
    return QCoreApplication.translate("CacheCauses", str(_SOURCES[source]))
