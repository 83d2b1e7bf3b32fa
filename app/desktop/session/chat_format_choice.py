"""ChatFormatChoice: which chat format the user has chosen for the loaded model; kept for each model."""

from collections.abc import Callable, Mapping

from PySide6.QtCore import QObject

from app.desktop.session.model_session import ModelSession


class ChatFormatChoice(QObject):
    """Remembers a choice for each model, by what the settings call the model.

    Args:
        kept: the choices so far.
        save: keeps settings, given by name.
    """

    def __init__(self, model: ModelSession, kept: Mapping[str, str], save: Callable[[str, object], None]) -> None:
        super().__init__(model)
        self._model = model
        self._kept = dict(kept)
        self._save = save

    @property
    def usable(self) -> tuple[str, ...]:
        """The formats that the loaded model can use."""
        return self._model.description.chat_formats if self._model.description is not None else ()

    @property
    def default(self) -> str | None:
        """What the model uses without a choice; None where it has no format."""
        return self._model.description.chat_format if self._model.description is not None else None

    @property
    def chosen(self) -> str | None:
        """What the user chose for the loaded model; None takes the model's own."""
        name = self._kept.get(self._key)
        return name if name in self.usable else None

    def choose(self, name: str | None) -> None:
        """Use a format for this model from the next reply on; None goes back to the model's own."""
        if name is None or name == self.default:
            self._kept.pop(self._key, None)
        else:
            self._kept[self._key] = name
        self._save("chat_formats", dict(self._kept))

    @property
    def _key(self) -> str:
        return self._model.chosen.last_model if self._model.chosen is not None else ""
