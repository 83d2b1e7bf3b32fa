"""The one application stylesheet and the CSS of message documents, both built from the tokens."""

from collections.abc import Callable

from app.desktop.theme.tokens import Colours

Px = Callable[[float], int]


def application_stylesheet(c: Colours, px: Px) -> str:
    """Return the Qt stylesheet of the whole application."""
    first = (_bases, _buttons, _inputs, _frames, _scroll_bars, _menus)
    parts = (*first, _finding, _inspector, _pages, _models, _comparing, _conversation)
    return "".join(part(c, px) for part in parts)


def document_stylesheet(c: Colours, px: Px, code_families: str) -> str:
    """Return the CSS of message text; heads are styled paragraphs because Qt overrules the sizes of h1 to h6."""
    line = "-qt-line-height-type:minimum"
    return f"""
    p, li, td, th {{ line-height:{px(23)}px;{line}; }}
    p {{ margin-top:0;margin-bottom:{px(9)}px; }}
    p.h1 {{ font-size:{px(20)}px;font-weight:600;line-height:{px(28)}px;margin-top:{px(10)}px; }}
    p.h2 {{ font-size:{px(18)}px;font-weight:600;line-height:{px(26)}px;margin-top:{px(8)}px; }}
    p.h3 {{ font-size:{px(16)}px;font-weight:600;line-height:{px(24)}px;margin-top:{px(4)}px; }}
    p.first {{ margin-top:0; }}
    ul, ol {{ margin-top:0;margin-bottom:{px(9)}px; }}
    li {{ margin-bottom:{px(4)}px; }}
    a {{ color:{c.link};text-decoration:underline; }}
    code {{ font-family:{code_families};font-size:{px(13)}px;background-color:{c.code_head}; }}
    pre, .source {{ font-family:{code_families};font-size:{px(13)}px; }}
    pre {{ background-color:{c.code};margin-top:{px(2)}px;margin-bottom:{px(9)}px; }}
    blockquote {{ margin-top:0;margin-bottom:{px(9)}px;margin-left:{px(16)}px;margin-right:0;color:{c.muted}; }}
    hr {{ background-color:{c.border}; }}
    table {{ border-collapse:collapse;border-style:solid;border-color:{c.border}; }}
    th {{ background-color:{c.code_head};font-weight:600; }}
    """


def _bases(c: Colours, px: Px) -> str:
    return f"""
    * {{ selection-background-color:{c.selection};selection-color:{c.text}; }}
    QMainWindow, #conversation {{ background:{c.bg}; }}
    QLabel {{ color:{c.text};background:transparent; }}
    QLabel[role="muted"] {{ color:{c.muted}; }}
    QLabel[role="meta"] {{ color:{c.muted};font-size:{px(12)}px; }}
    QLabel[role="section"] {{ color:{c.muted};font-size:{px(11)}px;font-weight:600;letter-spacing:1px; }}
    QLabel[role="title"] {{ font-size:{px(13)}px;font-weight:600; }}
    QLabel[role="badge"] {{ color:{c.muted};font-size:{px(12)}px;border:1px solid {c.control_border};
        border-radius:{px(4)}px;padding:{px(1)}px {px(6)}px; }}
    QLabel[role="headline"] {{ font-size:{px(20)}px;font-weight:600; }}
    QLabel[role="lead"] {{ font-size:{px(15)}px;color:{c.muted}; }}
    QLabel[role="speaker"] {{ font-size:{px(13)}px;font-weight:600;color:{c.muted}; }}
    QLabel[role="model"] {{ font-size:{px(13)}px;font-weight:600;color:{c.accent}; }}
    QLabel[role="number"] {{ font-size:{px(26)}px;font-weight:600; }}
    QLabel[role="idle"] {{ font-size:{px(26)}px;font-weight:600;color:{c.control_border}; }}
    QLabel[role="language"] {{ color:{c.muted};font-size:{px(12)}px; }}
    QLabel[role="error"] {{ color:{c.error};font-weight:600; }}
    QToolTip {{ color:{c.text};background:{c.raised};border:1px solid {c.border};padding:{px(4)}px {px(6)}px; }}
    SafeBrowser, PlainText, DimText, CodeText {{ border:0;background:transparent; }}
    DimText {{ color:{c.muted}; }}
    """


def _buttons(c: Colours, px: Px) -> str:
    return f"""
    QPushButton, QToolButton {{
        color:{c.text};background:transparent;border:1px solid transparent;border-radius:{px(6)}px;
        padding:{px(5)}px {px(10)}px;font-size:{px(13)}px; }}
    QToolButton[glyph="true"] {{ padding:0; }}
    QPushButton[kind="outline"] {{ background:{c.raised};border-color:{c.border}; }}
    QPushButton[kind="small"] {{ padding:{px(3)}px {px(8)}px;font-size:{px(12)}px;color:{c.text}; }}
    QPushButton[kind="action"] {{ padding:{px(3)}px {px(8)}px;font-size:{px(12)}px;color:{c.accent}; }}
    QPushButton[kind="pill"] {{ background:{c.raised};border:1px solid {c.border};border-radius:{px(13)}px;
        padding:{px(5)}px {px(12)}px; }}
    QPushButton:hover, QToolButton:hover, QPushButton[kind="outline"]:hover, QPushButton[kind="pill"]:hover {{
        background:{c.hover}; }}
    QPushButton:checked, QToolButton:checked {{ background:{c.selection}; }}
    QPushButton:focus, QToolButton:focus {{ border:2px solid {c.accent};padding:{px(4)}px {px(9)}px; }}
    QToolButton[glyph="true"]:focus {{ padding:0; }}
    QPushButton[kind="small"]:focus, QPushButton[kind="action"]:focus {{ padding:{px(2)}px {px(7)}px; }}
    QPushButton[kind="fold"] {{ color:{c.muted};text-align:left;padding:0 {px(8)}px 0 {px(22)}px; }}
    QPushButton[kind="fold"]:hover {{ color:{c.text}; }}
    QPushButton[kind="fold"]:checked {{ background:transparent; }}
    QPushButton[kind="fold"]:checked:hover {{ background:{c.hover}; }}
    QPushButton[kind="fold"]:focus {{ padding:0 {px(7)}px 0 {px(21)}px; }}
    QPushButton[kind="primary"] {{ background:{c.accent};color:{c.on_accent};font-weight:600;
        border:1px solid {c.accent};padding:{px(6)}px {px(16)}px; }}
    QPushButton[kind="primary"]:hover {{ background:{c.accent_hover};border-color:{c.accent_hover}; }}
    QPushButton[kind="primary"]:focus {{ border:2px solid {c.text};padding:{px(5)}px {px(15)}px; }}
    QPushButton[kind="primary"]:disabled {{ background:{c.hover};color:{c.muted};border-color:{c.hover}; }}
    QPushButton:disabled, QToolButton:disabled {{ color:{c.muted}; }}
    """


def _inputs(c: Colours, px: Px) -> str:
    # A radius of more than half the handle's height, which is that of the groove and both margins, makes it square.
    round_handle = min(px(12) + 2, px(4) + 2 * px(5)) // 2
    return f"""
    QLineEdit, QPlainTextEdit {{ placeholder-text-color:{c.muted}; }}
    #composerFrame {{ background:{c.raised};border:1px solid {c.control_border};border-radius:{px(12)}px; }}
    #composerFrame[focused="true"] {{ border-color:{c.accent}; }}
    #composerText {{ background:transparent;border:0;font-size:{px(15)}px; }}
    #pasteChip, #queuedMessage {{ background:{c.code};border:1px solid {c.border};border-radius:{px(8)}px; }}
    #tokenCount {{ color:{c.muted};font-size:{px(12)}px; }}
    #tokenCount[warning="true"] {{ color:{c.warn};font-weight:600; }}
    QLineEdit, #stopStrings {{ background:{c.raised};color:{c.text};border:1px solid {c.control_border};
        border-radius:{px(6)}px;padding:{px(3)}px {px(7)}px;font-size:{px(13)}px; }}
    QLineEdit:focus, #stopStrings:focus {{ border:2px solid {c.accent};padding:{px(2)}px {px(6)}px; }}
    QLineEdit[quiet="true"] {{ background:transparent;border-color:transparent;padding-right:{px(1)}px; }}
    QLineEdit[quiet="true"]:hover {{ background:{c.raised};border-color:{c.control_border}; }}
    QLineEdit[quiet="true"]:focus {{ background:{c.raised};border-color:{c.accent};padding-right:0; }}
    QLineEdit[invalid="true"] {{ border:2px solid {c.error};padding:{px(2)}px {px(6)}px; }}
    QSlider {{ background:transparent;min-height:{px(18)}px; }}
    QSlider::groove:horizontal {{ height:{px(4)}px;background:{c.border};border-radius:{px(2)}px; }}
    QSlider::sub-page:horizontal {{ background:{c.accent};border-radius:{px(2)}px; }}
    QSlider::handle:horizontal {{ width:{px(12)}px;height:{px(12)}px;margin:-{px(5)}px 0;
        border:1px solid {c.control_border};border-radius:{round_handle}px;background:{c.raised}; }}
    QSlider::handle:horizontal:hover {{ border-color:{c.accent}; }}
    QSlider::handle:horizontal:focus {{ border:2px solid {c.accent}; }}
    QProgressBar {{ background:{c.border};border:0;border-radius:{px(2)}px;
        max-height:{px(4)}px;min-height:{px(4)}px; }}
    QProgressBar::chunk {{ background:{c.accent};border-radius:{px(2)}px; }}
    """


def _frames(c: Colours, px: Px) -> str:
    return f"""
    #topBar {{ background:{c.bg};border:0;border-bottom:1px solid {c.border}; }}
    #inspector {{ background:{c.surface};border:0;border-left:1px solid {c.border}; }}
    #inspectorBody {{ background:{c.surface}; }}
    #userBlock {{ background:{c.user_block};border-radius:{px(10)}px; }}
    #codeBlock {{ background:{c.code};border:1px solid {c.border};border-radius:{px(8)}px; }}
    #codeHead {{ background:{c.code_head};border:0;border-top-left-radius:{px(7)}px;
        border-top-right-radius:{px(7)}px; }}
    #notice {{ background:{c.surface};border:1px solid {c.border};border-radius:{px(8)}px; }}
    #errorBlock {{ background:{c.surface};border:1px solid {c.border};border-left:3px solid {c.error};
        border-top-right-radius:{px(8)}px;border-bottom-right-radius:{px(8)}px; }}
    #linkTarget {{ background:{c.raised};color:{c.muted};border:1px solid {c.border};font-size:{px(12)}px;
        padding:{px(3)}px {px(8)}px;border-radius:{px(4)}px; }}
    """


def _scroll_bars(c: Colours, px: Px) -> str:
    return f"""
    QScrollArea, QAbstractScrollArea {{ border:0;background:transparent; }}
    QScrollBar:vertical {{ background:transparent;width:{px(10)}px;margin:{px(2)}px; }}
    QScrollBar:horizontal {{ background:transparent;height:{px(10)}px;margin:{px(2)}px; }}
    QScrollBar::handle {{ background:{c.control_border};border-radius:{px(3)}px; }}
    QScrollBar::handle:vertical {{ min-height:{px(28)}px; }}
    QScrollBar::handle:horizontal {{ min-width:{px(28)}px; }}
    QScrollBar::handle:disabled {{ background:transparent; }}
    QScrollBar::handle:hover {{ background:{c.muted}; }}
    QScrollBar::add-line, QScrollBar::sub-line {{ width:0;height:0; }}
    QScrollBar::add-page, QScrollBar::sub-page {{ background:transparent; }}
    """


def _menus(c: Colours, px: Px) -> str:
    return f"""
    QMenu {{ background:{c.raised};color:{c.text};border:1px solid {c.border};padding:{px(4)}px; }}
    QMenu::item {{ padding:{px(6)}px {px(24)}px {px(6)}px {px(24)}px;border-radius:{px(4)}px; }}
    QMenu::item:selected {{ background:{c.selection}; }}
    QMenu::item:disabled {{ color:{c.muted}; }}
    QMenu::separator {{ height:1px;background:{c.border};margin:{px(4)}px {px(8)}px; }}
    """


def _finding(c: Colours, px: Px) -> str:
    return f"""
    #sidebar {{ background:{c.surface};border:0;border-right:1px solid {c.border}; }}
    QPushButton[kind="sideNew"] {{ background:{c.raised};border:1px solid {c.border};text-align:left;
        padding:{px(5)}px {px(10)}px {px(5)}px {px(34)}px; }}
    QPushButton[kind="sideNew"]:hover {{ background:{c.hover}; }}
    QPushButton[kind="sideNew"]:focus {{ border:2px solid {c.accent};
        padding:{px(4)}px {px(9)}px {px(4)}px {px(33)}px; }}
    QPushButton[kind="side"] {{ text-align:left;padding:{px(5)}px {px(4)}px {px(5)}px {px(34)}px; }}
    QPushButton[kind="side"]:focus {{ padding:{px(4)}px {px(3)}px {px(4)}px {px(33)}px; }}
    QLabel[role="problem"] {{ color:{c.warn};font-size:{px(12)}px; }}
    #findBar {{ background:{c.raised};border:1px solid {c.border};border-radius:{px(8)}px; }}
    #trashPage {{ background:{c.bg}; }}
    #jobStrip {{ background:{c.surface};border:1px solid {c.border};border-radius:{px(8)}px; }}
    #trashList {{ background:{c.surface};border:1px solid {c.border};border-radius:{px(8)}px;padding:{px(4)}px; }}
    #purge[asks="true"] {{ color:{c.error};border-color:{c.error};font-weight:600; }}
    """


def _inspector(c: Colours, px: Px) -> str:
    return f"""
    QPushButton[kind="section"] {{ color:{c.muted};text-align:left;font-size:{px(11)}px;font-weight:600;
        letter-spacing:1px;padding:0 {px(2)}px 0 {px(20)}px;border-radius:{px(4)}px; }}
    QPushButton[kind="section"]:hover {{ color:{c.text};background:transparent; }}
    QPushButton[kind="section"]:checked {{ background:transparent; }}
    QPushButton[kind="section"]:focus {{ padding:0 {px(1)}px 0 {px(19)}px; }}
    QPushButton[kind="tag"] {{ color:{c.accent};font-size:{px(11)}px;text-align:left;border-radius:{px(4)}px;
        padding:0 0 0 {px(6)}px; }}
    QPushButton[kind="tag"]:disabled {{ color:{c.muted}; }}
    QPushButton[kind="tag"]:focus {{ padding:0 0 0 {px(5)}px; }}
    #systemPrompt {{ background:{c.raised};color:{c.text};border:1px solid {c.control_border};
        border-radius:{px(6)}px;padding:{px(3)}px {px(4)}px;font-size:{px(13)}px; }}
    #systemPrompt:focus {{ border:2px solid {c.accent};padding:{px(2)}px {px(3)}px; }}
    #samplerOrder {{ background:{c.raised};color:{c.text};border:1px solid {c.control_border};
        border-radius:{px(6)}px;padding:{px(3)}px;font-size:{px(13)}px; }}
    #samplerOrder:focus {{ border:2px solid {c.accent};padding:{px(2)}px; }}
    #samplerOrder::item {{ height:{px(24)}px;border-radius:{px(4)}px; }}
    #samplerOrder::item:selected {{ background:{c.selection};color:{c.text}; }}
    #samplerOrder::item:hover:!selected {{ background:{c.hover}; }}
    #inspector QComboBox {{ padding:{px(3)}px {px(7)}px; }}
    #inspector QComboBox:focus {{ padding:{px(2)}px {px(6)}px; }}
    #detailsCard, #detailsBody {{ background:{c.bg}; }}
    """


def _pages(c: Colours, px: Px) -> str:
    """Return the rules of what stands in the place of the conversation, and of the crash card and the list of keys."""
    return f"""
    QAbstractScrollArea::corner {{ background:transparent;border:0; }}
    #settingsPage, #settingsBody, #shortcutList {{ background:{c.bg}; }}
    #notices, #noticesBody {{ background:transparent; }}
    #pageHead {{ background:{c.bg};border:0;border-bottom:1px solid {c.border}; }}
    #settingLabel {{ font-size:{px(13)}px;font-weight:600; }}
    #keyCap {{ background:{c.surface};color:{c.text};border:1px solid {c.border};border-bottom:2px solid {c.border};
        border-radius:{px(4)}px;padding:{px(1)}px {px(6)}px;font-size:{px(12)}px; }}
    QComboBox, QAbstractSpinBox {{ background:{c.raised};color:{c.text};border:1px solid {c.control_border};
        border-radius:{px(6)}px;padding:{px(4)}px {px(8)}px;font-size:{px(13)}px;min-height:{px(20)}px; }}
    QComboBox:disabled {{ color:{c.muted};border-color:{c.border}; }}
    QComboBox:hover, QAbstractSpinBox:hover {{ border-color:{c.accent}; }}
    QComboBox:focus, QAbstractSpinBox:focus {{ border:2px solid {c.accent};padding:{px(3)}px {px(7)}px; }}
    QComboBox::drop-down {{ width:{px(22)}px;border:0; }}
    QComboBox::down-arrow {{ image:none; }}
    QComboBox {{ combobox-popup:0; }}
    QComboBox QAbstractItemView {{ background:{c.raised};color:{c.text};border:1px solid {c.border};outline:0;
        padding:0;selection-background-color:{c.selection};selection-color:{c.text}; }}
    QComboBox QAbstractItemView::item {{ color:{c.text};min-height:{px(26)}px;padding:0 {px(6)}px; }}
    QComboBox QAbstractItemView::item:disabled {{ color:{c.control_border}; }}
    QAbstractSpinBox QLineEdit, QAbstractSpinBox QLineEdit:focus {{ background:transparent;border:0;
        padding:0; }}
    QAbstractSpinBox::up-button {{ subcontrol-origin:border;subcontrol-position:top right;width:0;height:0; }}
    QAbstractSpinBox::down-button {{ subcontrol-origin:border;subcontrol-position:bottom right;width:0;height:0; }}
    #crashCard {{ background:{c.surface};border:1px solid {c.border};border-left:3px solid {c.error};
        border-top-right-radius:{px(8)}px;border-bottom-right-radius:{px(8)}px; }}
    #crashLog {{ background:{c.code};color:{c.text};border:1px solid {c.border};border-radius:{px(6)}px;
        padding:{px(6)}px; }}
    """


def _models(c: Colours, px: Px) -> str:
    return f"""
    #modelsPage {{ background:{c.bg}; }}
    #modelsList {{ background:transparent; }}
    #modelPanels {{ background:{c.surface};border-left:1px solid {c.border}; }}
    #modelDetails, #modelDetailsBody {{ background:{c.surface}; }}
    #folderEntry {{ background:{c.raised};border:1px solid {c.border};border-radius:{px(8)}px; }}
    #modelDetails QPushButton {{ padding-left:{px(6)}px;padding-right:{px(6)}px; }}
    QLabel[fit="fits"] {{ color:{c.ok};font-weight:600; }}
    QLabel[fit="tight"] {{ color:{c.warn};font-weight:600; }}
    QLabel[fit="too_large"] {{ color:{c.error};font-weight:600; }}
    #modelTable {{ background:{c.bg};color:{c.text};border:0;font-size:{px(12)}px; }}
    #modelTable::item {{ padding:0 {px(8)}px; }}
    #modelTable::item:selected {{ background:{c.selection};color:{c.text}; }}
    QHeaderView {{ background:{c.bg};border:0; }}
    QHeaderView::section {{ background:{c.bg};color:{c.muted};border:0;border-bottom:1px solid {c.border};
        padding:{px(4)}px {px(8) + 3}px;font-size:{px(12)}px; }}
    #modelTemplate {{ background:{c.code};color:{c.text};border:0;padding:{px(8)}px; }}
    """


def _comparing(c: Colours, px: Px) -> str:
    return f"""
    #comparePage, #compareBody, #laneStrip {{ background:{c.bg}; }}
    #compareLane {{ background:{c.bg};border:0;border-right:1px solid {c.border}; }}
    #laneHead, #compareLine {{ background:{c.surface};border:0;border-bottom:1px solid {c.border}; }}
    #laneFoot {{ background:{c.surface};border:0;border-top:1px solid {c.border}; }}
    #compareFoot {{ background:{c.bg};border:0;border-top:1px solid {c.border}; }}
    #columnCard {{ background:{c.surface};border:1px solid {c.border};border-radius:{px(8)}px; }}
    QLabel[role="figure"] {{ font-size:{px(13)}px; }}
    QLabel[role="figure"][best="true"] {{ color:{c.ok};font-weight:600; }}
    #comparePrompt, #diffText {{ background:{c.raised};color:{c.text};border:1px solid {c.control_border};
        border-radius:{px(6)}px;padding:{px(5)}px {px(7)}px;font-size:{px(14)}px; }}
    #comparePrompt:focus, #diffText:focus {{ border:2px solid {c.accent};padding:{px(4)}px {px(6)}px; }}
    #compareChats {{ background:{c.raised};color:{c.text};border:1px solid {c.control_border};
        border-radius:{px(6)}px;font-size:{px(14)}px; }}
    #compareChats:focus {{ border-color:{c.accent}; }}
    #compareTable {{ background:{c.bg};color:{c.text};border:1px solid {c.border};border-radius:{px(8)}px;
        font-size:{px(13)}px; }}
    #compareTable:focus {{ border-color:{c.accent}; }}
    #compareTable::item {{ padding:{px(6)}px {px(10)}px;border-bottom:1px solid {c.border}; }}
    #compareTable::item:selected {{ background:{c.selection};color:{c.text}; }}
    #compareTable QHeaderView {{ background:{c.surface};border:0; }}
    #compareTable QHeaderView::section {{ background:{c.surface};color:{c.muted};border:0;
        border-bottom:1px solid {c.border};padding:{px(5)}px {px(13)}px;font-size:{px(12)}px; }}
    """


def _conversation(c: Colours, px: Px) -> str:
    return f"""
    #messageEditor {{ background:{c.raised};border:1px solid {c.accent};border-radius:{px(10)}px; }}
    #messageEditorText {{ background:transparent;border:0;color:{c.text}; }}
    """
