"""The LoRA adapters of a column: whether they can be used with its model, and what tells their files apart."""

from collections.abc import Sequence
from pathlib import Path

from app.adapter_files import AdapterFiles
from app.errors import AdapterUnreadable
from engine import Adapter
from models import fingerprint, read_gguf_info


def adapter_fingerprints(adapters: Sequence[Adapter], model: Path) -> tuple[str, ...]:
    """Return the fingerprint of each adapter's file.

    Raises:
        AppError, ModelsError: one is not there, is no adapter, or does not fit the model.
    """
    files = AdapterFiles(None)
    found = []
    for adapter in adapters:
        looked_at = files.look_at(adapter.path, str(model))
        if looked_at.misfit:
            raise AdapterUnreadable(
                f"The adapter {looked_at.label} cannot be used. {looked_at.misfit}", "Choose one of this model."
            )
        try:
            found.append(fingerprint(read_gguf_info(Path(adapter.path))))
        except OSError as error:
            reason = error.strerror or str(error)
            raise AdapterUnreadable(
                f"{adapter.path} cannot be read: {reason}.", "Check the file and its disk."
            ) from error
    return tuple(found)
