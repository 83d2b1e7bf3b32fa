"""LazyParser: makes the parser of replies when it is first asked for; it is not loaded before the first paint."""

from app.desktop.rendering.blocks import BlockParser


class LazyParser:
    """Makes the parser when it is first asked for: it is not loaded before the first paint."""

    def __init__(self) -> None:
        self._parser: BlockParser | None = None

    def __call__(self) -> BlockParser:
        if self._parser is None:
            from app.desktop.rendering.renderer import Renderer

            self._parser = Renderer()
        return self._parser
