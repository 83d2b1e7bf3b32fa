"""ChatTree: the messages of one chat as a tree in memory, and the path through it that is shown. Knows no store."""

from collections.abc import Iterable, Sequence

from app.desktop.session.turns import Turn


class ChatTree:
    """Grows and never loses a message; deleting marks one.

    Args:
        turns: parents before their children, as they were added.
        leaf: the last message of the shown path.
    """

    def __init__(self, turns: Iterable[Turn] = (), leaf: str | None = None) -> None:
        self._turns: dict[str, Turn] = {}
        self._children: dict[str | None, list[Turn]] = {}
        self._leaf: str | None = None
        self._shown: list[Turn] | None = None
        for turn in turns:
            self.add(turn)
        if leaf in self._turns:
            self.show(leaf)

    @property
    def leaf(self) -> str | None:
        """Id of the last message of the shown path, a deleted one too; None in an empty chat."""
        return self._leaf

    @property
    def turns(self) -> Iterable[Turn]:
        """All messages, in the order in which they were added."""
        return self._turns.values()

    def get(self, turn_id: str) -> Turn | None:
        """Return a message."""
        return self._turns.get(turn_id)

    def add(self, turn: Turn) -> None:
        """Add a message below its parent and show the path to it."""
        if turn.parent_id not in self._turns:
            turn.parent_id = None
        self._turns[turn.turn_id] = turn
        beside = self._children.setdefault(turn.parent_id, [])
        beside.append(turn)
        shown, before = self._shown, self._leaf
        self.show(turn.turn_id)
        if shown is not None and turn.parent_id == before and len(beside) == 1 and not turn.is_deleted:
            self._shown = [*shown, turn]  # a long path is not walked anew for one message more

    def show(self, turn_id: str | None) -> None:
        """Let the shown path end at a message; None shows nothing."""
        self._leaf = turn_id
        self._shown = None

    def set_deleted(self, turn_id: str, *, is_deleted: bool) -> None:
        """Take a message out of the shown path, or put it back; what hangs below it stays."""
        self._turns[turn_id].is_deleted = is_deleted
        self._shown = None

    def shown(self) -> Sequence[Turn]:
        """Return the messages of the path that are not deleted, the first one first."""
        if self._shown is None:
            self._shown = self.path_to(self._leaf)
            for turn in self._shown:
                beside = self.variants(turn)
                turn.variant, turn.num_variants = beside.index(turn), len(beside)
        return self._shown

    def path_to(self, turn_id: str | None) -> list[Turn]:
        """Return the messages that are not deleted from the first one to this one, wherever it is."""
        path: list[Turn] = []
        turn = self._turns.get(turn_id or "")
        while turn is not None:
            if not turn.is_deleted:
                path.append(turn)
            turn = self._turns.get(turn.parent_id or "")
        return path[::-1]

    def variants(self, turn: Turn) -> Sequence[Turn]:
        """Return a message and those of its kind that stand beside it, the oldest first."""
        beside = self._children[turn.parent_id]
        if len(beside) == 1:
            return beside
        return [other for other in beside if type(other) is type(turn) and (other is turn or not other.is_deleted)]

    def leaf_below(self, turn_id: str) -> str:
        """Return the end of the newest branch that goes through a message."""
        while below := [turn for turn in self._children.get(turn_id, ()) if not turn.is_deleted or self._has(turn)]:
            turn_id = below[-1].turn_id
        return turn_id

    def _has(self, turn: Turn) -> bool:
        """Tell whether anything below a deleted message is still there."""
        waiting = [turn]
        while waiting:
            below = self._children.get(waiting.pop().turn_id, ())
            if any(not other.is_deleted for other in below):
                return True
            waiting += below
        return False
