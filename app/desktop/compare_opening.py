"""ComparePlace: where the Compare page is opened; all it needs is loaded and made when it is first wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.desktop.bridge.background import SerialBackground
from app.desktop.rendering.blocks import BlockParser
from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.session.chats import Chats
from app.desktop.session.model_session import ModelSession
from app.desktop.theme.theme import Theme
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.notices import Notice

if TYPE_CHECKING:
    from app.desktop.bridge.compare_job import CompareJob
    from app.desktop.compare_presenter import ComparePresenter
    from app.desktop.compare_source import CompareSource


class ComparePlace(QObject):
    """See above.

    Args:
        make_source: makes what the page is fed from; None for a window without the page.
        ask_about_link, save_code: as in the conversation.
    """

    def __init__(
        self,
        theme: Theme,
        window: MainWindow,
        *,
        make_source: Callable[[], CompareSource] | None,
        parser: Callable[[], BlockParser],
        lexer: CodeLexer,
        formulas: FormulaImages,
        chats: Chats,
        model: ModelSession,
        show_notice: Callable[[Notice], None],
        ask_about_link: Callable[[str], None],
        save_code: Callable[[str, str], None],
    ) -> None:
        super().__init__(window)
        self._theme = theme
        self._window = window
        self._make_source = make_source
        self._parser, self._lexer, self._formulas = parser, lexer, formulas
        self._chats = chats
        self._model = model
        self._show_notice = show_notice
        self._ask_about_link = ask_about_link
        self._save_code = save_code
        self._presenter: ComparePresenter | None = None
        self._job: CompareJob | None = None
        self._background = SerialBackground(window)

    @property
    def presenter(self) -> ComparePresenter:
        """What joins the page with the rest; made when it is first asked for."""
        if self._presenter is None:
            self._presenter = self._new_presenter()
        return self._presenter

    def toggle(self) -> None:
        """Show the page, or the conversation where it is shown; a comparison goes on meanwhile."""
        if self._presenter is not None and self._window.page is self._presenter.page:
            self._window.show_page(None)
        elif self._make_source is not None:
            self.presenter.show()

    def close(self) -> None:
        """End what runs."""
        self._background.close()
        if self._job is not None:
            self._job.close()

    def _new_presenter(self) -> ComparePresenter:
        from app.desktop.bridge.compare_job import CompareJob
        from app.desktop.compare_presenter import ComparePresenter
        from app.desktop.widgets.compare_page import ComparePage

        assert self._make_source is not None
        source = self._make_source()
        self._job = CompareJob(source.keep, self)
        page = ComparePage(self._theme, self._parser, self._lexer, self._window, formulas=self._formulas)
        page.columns.link_activated.connect(self._ask_about_link)
        page.columns.save_requested.connect(self._save_code)
        return ComparePresenter(
            self._window,
            page,
            source=source,
            job=self._job,
            background=self._background,
            chats=self._chats,
            model=self._model,
            show_notice=self._show_notice,
        )
