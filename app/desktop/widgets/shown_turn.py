"""ShownTurn: what the conversation remembers of a turn while it has no widgets."""

import dataclasses

from app.desktop.session.turns import Turn
from app.desktop.widgets.reply_contents import ReplyContents


@dataclasses.dataclass(eq=False, slots=True)
class ShownTurn:
    """One turn in the column.

    Attributes:
        index: its place among the turns.
        top, height: where it stands in the column, in pixels; an estimate until it was in view.
        contents: the segments of a reply that was in view.
        was_open: whether the reply was being written when it was last looked at.
    """

    turn: Turn
    index: int = 0
    top: int = 0
    height: int = 0
    contents: ReplyContents | None = None
    is_fold_open: bool = False
    is_unfolded: bool = False
    was_open: bool = True
