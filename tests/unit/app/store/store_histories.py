"""Random histories of a store beside a plain model of it: no text is lost before it is purged."""

import itertools
import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from app.store import Chat, ChatStore, NewChat, NewNode, Node, NodeState, Partial, ReplyEnd
from engine import Role

WORDS = st.lists(
    st.sampled_from(["tide", "Moon", "日本語", "C++", "50%", "a\0b", "İß", '"or"', "x_y"]), min_size=1, max_size=3
)
WAIT_S = 60


class StoreHistory(RuleBasedStateMachine):
    """What a person does with chats, in any order.

    Attributes:
        texts: of every message that is not purged, by id.
    """

    chats = Bundle("chats")
    nodes = Bundle("nodes")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="fireside-history-"))
        self.texts: dict[str, str] = {}
        self.chat_of: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.trashed: set[str] = set()
        self.open_replies: dict[str, str] = {}
        self.interrupted: set[str] = set()  # no longer open, but who made them can still finish them
        self.purged: set[str] = set()
        self.numbers = itertools.count()
        self.store = self.open()

    def open(self) -> ChatStore:
        """Open the file, which must be sound."""
        store, notices = ChatStore.open(self.folder / "chats.sqlite3")
        assert notices == ()
        return store

    def teardown(self) -> None:
        """Close the store and take its folder away."""
        self.store.close()
        shutil.rmtree(self.folder)

    def text(self, words: list[str]) -> str:
        """Return a text that is like no other."""
        return f"{' '.join(words)} №{next(self.numbers)}."

    def load(self, chat_id: str) -> Chat | None:
        """Return a chat after all writes."""
        self.store.flush(WAIT_S)
        return self.store.load_chat(chat_id)

    def node(self, node_id: str) -> Node | None:
        """Return a message that is not purged."""
        chat = self.load(self.chat_of[node_id])
        return chat.by_id[node_id] if chat else None

    def add(self, node: NewNode, *, is_shown: bool = True) -> str:
        """Add a message to the store and the model."""
        self.store.add_node(node, is_shown=is_shown).result(WAIT_S)
        self.chat_of[node.id] = node.chat_id
        self.texts[node.id] = node.content
        if node.state is NodeState.OPEN:
            self.open_replies[node.id] = node.content
        return node.id

    @initialize(target=nodes)
    def begin(self):
        """Begin with a chat of two messages, for nothing can be done without."""
        chat_id = self.new_chat(["first"])
        question = self.ask_below(None, chat_id, ["first"], is_shown=True)
        return multiple(question, self.ask_below(question, chat_id, ["second"], is_shown=True))

    @rule(target=chats, words=WORDS)
    def add_chat(self, words: list[str]):
        return self.new_chat(words)

    def new_chat(self, words: list[str]) -> str:
        """Add a chat to the store and the model."""
        chat = NewChat(title=self.text(words))
        self.store.add_chat(chat).result(WAIT_S)
        self.texts[chat.id] = chat.title
        return chat.id

    @rule(target=nodes, chat_id=chats, words=WORDS)
    def ask_first(self, chat_id: str, words: list[str]):
        if chat_id in self.purged:
            return multiple()
        return self.ask_below(None, chat_id, words, is_shown=True)

    @rule(target=nodes, node_id=nodes, words=WORDS, is_shown=st.booleans())
    def branch_from(self, node_id: str, words: list[str], is_shown: bool):
        if self.chat_of[node_id] in self.purged:
            return multiple()
        return self.ask_below(node_id, self.chat_of[node_id], words, is_shown=is_shown)

    def ask_below(self, parent_id: str | None, chat_id: str, words: list[str], *, is_shown: bool) -> str:
        """Add a message of the user to the store and the model."""
        new = NewNode(chat_id=chat_id, parent_id=parent_id, role=Role.USER, content=self.text(words))
        return self.add(new, is_shown=is_shown)

    @rule(target=nodes, node_id=nodes)
    def reply_to(self, node_id: str):
        if self.chat_of[node_id] in self.purged:
            return multiple()
        new = NewNode(chat_id=self.chat_of[node_id], parent_id=node_id, role=Role.ASSISTANT, state=NodeState.OPEN)
        return self.add(new)

    @rule(target=nodes, node_id=nodes, words=WORDS, is_open=st.booleans())
    def edit_or_regenerate_or_go_on(self, node_id: str, words: list[str], is_open: bool):
        node = self.node(node_id)
        if node is None:
            return multiple()
        if is_open:
            return self.add(node.variant(node.content, role=Role.ASSISTANT, state=NodeState.OPEN))
        return self.add(node.variant(self.text(words)))

    @rule(node_id=nodes, words=WORDS)
    def receive(self, node_id: str, words: list[str]) -> None:
        if node_id in self.open_replies.keys() - self.interrupted and self.chat_of[node_id] not in self.purged:
            self.texts[node_id] = self.texts[node_id] + self.text(words)
            self.store.save_partial(Partial(node_id=node_id, content=self.texts[node_id]))

    @rule(node_id=nodes, words=WORDS, fails=st.booleans())
    def finish(self, node_id: str, words: list[str], fails: bool) -> None:
        if self.chat_of[node_id] in self.purged:
            return
        text = self.texts[node_id] + self.text(words)
        error = {"error": "DecodeFailed"} if fails else None
        self.store.finish_reply(ReplyEnd(node_id=node_id, content=text, error=error)).result(WAIT_S)
        if node_id in self.open_replies:  # else it is final, and stays what it was
            del self.open_replies[node_id]
            self.texts[node_id] = text

    @rule(node_id=nodes)
    def show(self, node_id: str) -> None:
        self.store.show_node(node_id).result(WAIT_S)
        chat = self.load(self.chat_of[node_id])
        assert chat is None or node_id in {node.id for node in chat.path()}

    @rule(node_id=nodes)
    def delete(self, node_id: str) -> None:
        self.store.delete_node(node_id)
        self.deleted.add(node_id)

    @rule(node_id=nodes)
    def undelete(self, node_id: str) -> None:
        self.store.restore_node(node_id)
        self.deleted.discard(node_id)

    @rule(chat_id=chats)
    def trash(self, chat_id: str) -> None:
        self.store.trash_chat(chat_id)
        self.trashed.add(chat_id)

    @rule(chat_id=chats)
    def restore(self, chat_id: str) -> None:
        self.store.restore_chat(chat_id)
        self.trashed.discard(chat_id)

    @rule(chat_id=consumes(chats))
    def purge(self, chat_id: str) -> None:
        is_purged = self.store.purge_chat(chat_id).result(WAIT_S)
        assert is_purged == (chat_id in self.trashed)
        if is_purged:
            self.purged.add(chat_id)
            gone = {chat_id, *(node_id for node_id, its in self.chat_of.items() if its == chat_id)}
            self.texts = {its: text for its, text in self.texts.items() if its not in gone}
            self.open_replies = {its: text for its, text in self.open_replies.items() if its not in gone}
        self.trashed.discard(chat_id)

    @rule(chat_id=chats, words=WORDS)
    def rename(self, chat_id: str, words: list[str]) -> None:
        if chat_id not in self.purged:
            self.texts[chat_id] = self.text(words)
            self.store.rename_chat(chat_id, self.texts[chat_id])

    @rule()
    def purge_expired(self) -> None:
        assert self.store.purge_expired().result(WAIT_S) == 0

    @rule()
    def close_and_open(self) -> None:
        self.store.close()
        self.store = self.open()
        self.store.flush(WAIT_S)
        self.interrupted |= set(self.open_replies)

    @invariant()
    def every_text_can_be_reached(self) -> None:
        self.store.flush(WAIT_S)
        rows = [*self.store.list_chats(), *self.store.list_chats(trashed=True)]
        found = {row.id: row.title for row in rows}
        for row in rows:
            chat = self.store.load_chat(row.id)
            assert chat is not None
            found |= {node.id: node.content for node in chat.nodes}
            assert {node.id for node in chat.nodes if node.is_deleted} == self.deleted & set(chat.by_id)
            path = chat.path()
            assert bool(path) == bool(chat.nodes)
            if path:
                assert path[0].parent_id is None
                assert not chat.children(path[-1].id)
                assert chat.by_id[path[-1].id].id == chat.active_leaf
            reachable = {node.id for leaf in chat.nodes for node in chat.path(chat.leaf_below(leaf.id))}
            assert reachable == set(chat.by_id)
        assert found == self.texts

    @invariant()
    def every_text_can_be_found(self) -> None:
        self.store.flush(WAIT_S)
        for key, text in self.texts.items():
            if not text or key in self.open_replies.keys() - self.interrupted:
                continue
            places = {(hit.chat_id, hit.node_id) for hit in self.store.search(text, includes_trash=True)}
            assert ((self.chat_of[key], key) if key in self.chat_of else (key, None)) in places
            visible = {hit.node_id or hit.chat_id for hit in self.store.search(text)}
            is_hidden = key in self.deleted or self.chat_of.get(key, key) in self.trashed
            assert (key in visible) != is_hidden
