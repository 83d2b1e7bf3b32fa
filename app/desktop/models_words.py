"""What is said about work with model files: names of files, errors, and how far a level is made."""

import logging
from collections.abc import Sequence
from pathlib import PurePath

from PySide6.QtCore import QCoreApplication

from app.desktop.itemmodels.model_rows import MakeProgress, ModelRow, with_file
from app.desktop.rendering.plain import isolated, shortened
from app.desktop.widgets.figures import duration_text

_LOG = logging.getLogger(__name__)


def file_name(models: Sequence[ModelRow], path: str) -> str:
    """Return what a person calls a file: its model and its level."""
    model = with_file(models, path)
    if model is None:
        return isolated(shortened(PurePath(path).name, 80))
    label = next(file.label for file in model.files if file.path == path)
    return isolated(shortened(f"{model.name} {label}", 120))


def error_words(error: Exception) -> tuple[str, str]:
    """Return one sentence on what happened and one on what to do; a fault of the program goes to the log."""
    message, hint = getattr(error, "message", None), getattr(error, "hint", "")
    if isinstance(message, str):
        return message, str(hint or "")
    if isinstance(error, OSError):
        return _tr("The file cannot be read: {reason}.").format(reason=error.strerror or str(error)), ""
    _LOG.error("work with a model file failed", exc_info=error)
    return _tr("This went wrong because of a fault in Fireside."), _tr("The log has details.")


def making_text(progress: MakeProgress, name: str) -> str:
    """Say how far a level of a model is made."""
    if progress.type_name:
        text = _tr("Making {type} of {name}").format(type=progress.type_name, name=name)
    else:
        text = _tr("Computing the importance matrix of {name}").format(name=name)
    if progress.type_name and progress.total > 1:
        text += _tr(", {number} of {count}").format(number=progress.number, count=progress.total)
    text += f" · {progress.share:.0%}"
    if progress.remaining_s is not None:
        text += " · " + _tr("{time} left").format(time=duration_text(progress.remaining_s))
    return text


def _tr(text: str) -> str:
    return QCoreApplication.translate("ModelWords", text)
