"""What the prompt cache is measured by: an edit, a chat back from memory, one after a restart, a reply while another
chat is being written.

With one slot, each chat that is gone on with comes from where it went: no sequence of the context still holds it.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import msgspec

from app.bench.driver import BenchDriver, Timed
from app.bench.plan import GROWTH, BenchPlan
from app.bench.prompts import Messages, Prompts
from app.bench.round import BenchRound, Note
from engine import CacheParams, CacheSource, ModelParams

SHORT_REPLY = 4  # tokens, where only the time to the first one counts
_BESIDE_TOKENS = 64  # of a reply that runs while something is written, and of the same reply without
_START_LIMIT_S = 8.0  # until an engine at rest begins to write: it waits for two seconds itself
_WRITE_LIMIT_S = 30.0  # until a chat is on disk
_LOOK_S = 0.002
_PART, _WHOLE = "*.part", "*.snapshot"
_ROOM = 256  # tokens left free behind the longest chat


class CacheRound(BenchRound):
    """One repeat of it; it uses ten chats."""

    stages: ClassVar = ("an edit", "back from memory", "a chat being written", "after a restart")

    def run(self, path: str, params: ModelParams, parent: Path | None = None) -> Iterator[str]:
        """Measure, yielding what comes next.

        Args:
            parent: where the folder of snapshots is made, and deleted again; None is the system's place for such.
        """
        params = msgspec.structs.replace(params, n_seq_max=1)
        with tempfile.TemporaryDirectory(prefix="fireside-bench-", dir=parent, ignore_cleanup_errors=True) as folder:
            cache = CacheParams(folder=folder)
            self.driver.load(path, params, self.known, cache=cache)
            yield self.stages[0]
            chat = self._edit(self.prompts.long(self.number, self.plan.prompt_tokens))
            yield self.stages[1]
            other = self.prompts.long(self.number + 1, self.plan.prompt_tokens // 2)
            reply = self._ask(other, "other", _BESIDE_TOKENS)
            self.note("quiet_gap", reply.longest_gap_s)
            chat = self._go_on(chat, "switch_ram_ttft", CacheSource.RAM)
            yield self.stages[2]
            self._write_beside(Path(folder), self.prompts.follow_up(other, reply.finished.text))
            yield self.stages[3]
            if self.driver.can_restart:
                self.driver.restart()
                self.driver.load(path, params, self.known, cache=cache)
                self.driver.open_chat("long")
                self._go_on(chat, "restart_ttft", CacheSource.DISK)
            self.driver.set_cache(CacheParams(ram_mib=0))  # nothing is written into a folder that goes

    def _edit(self, chat: Messages) -> Messages:
        """Ask the next message of a chat, then another one in its place; return the chat after that."""
        reply = self._ask(chat, "long")
        self._ask(self.prompts.follow_up(chat, reply.finished.text), "long")
        edited = self.prompts.follow_up(chat, reply.finished.text, is_edited=True)
        reply = self._ask(edited, "long")
        metrics = reply.finished.metrics
        self.note("edit_ttft", reply.ttft_s)
        self.note("edit_evaluated", metrics.num_prompt_tokens - metrics.num_cached_tokens)
        return self.prompts.follow_up(edited, reply.finished.text)

    def _go_on(self, chat: Messages, name: str, source: CacheSource) -> Messages:
        """Ask the next message of a chat that has to come from `source`; return the chat after that."""
        reply = self._ask(chat, "long")
        report = reply.finished.cache
        self.note(name, reply.ttft_s if report is not None and report.source is source else None)
        return self.prompts.follow_up(chat, reply.finished.text)

    def _write_beside(self, folder: Path, other: Messages) -> None:
        """Have another chat go on as soon as the one before is being written, and wait until that is done."""
        if not wait_until(lambda: any(folder.glob(_PART)) or any(folder.glob(_WHOLE)), _START_LIMIT_S):
            return  # such a model is not written
        reply = self._ask(other, "other", _BESIDE_TOKENS)
        first_at = time.time() - (time.perf_counter() - reply.first_at)
        self.note("write_gap", reply.longest_gap_s if wrote_after(folder, first_at) else None)
        wait_until(lambda: any(folder.glob(_WHOLE)) and not any(folder.glob(_PART)), _WRITE_LIMIT_S)
        sizes = [path.stat().st_size for path in folder.glob(_WHOLE)]
        self.note("snapshot_bytes", max(sizes, default=None))

    def _ask(self, chat: Messages, chat_id: str, num_tokens: int = SHORT_REPLY) -> Timed:
        return self.driver.ask(chat, num_tokens, self.plan.sampling, chat_id=chat_id)


def measure_growth(
    driver: BenchDriver, prompts: Prompts, plan: BenchPlan, note: Note, *, number: int, n_ctx: int
) -> None:
    """Measure the next message of one chat as it grows; sizes beyond the context are left out."""
    chat = prompts.long(number, min(GROWTH[0], n_ctx - _ROOM))
    for size in GROWTH:
        num_tokens = min(size, n_ctx - _ROOM)
        if num_tokens < size * 15 // 16:
            return
        if size > GROWTH[0]:
            chat = prompts.longer(chat, num_tokens)
        reply = driver.ask(chat, SHORT_REPLY, plan.sampling)
        chat = prompts.follow_up(chat, reply.finished.text)
        reply = driver.ask(chat, SHORT_REPLY, plan.sampling)
        note(f"growth_{size // 1024}k", reply.ttft_s)
        chat = prompts.follow_up(chat, reply.finished.text)


def wait_until(is_there: Callable[[], bool], limit_s: float) -> bool:
    """Wait for something that comes by itself; False where it did not come in time."""
    ends_at = time.perf_counter() + limit_s
    while not is_there():
        if time.perf_counter() > ends_at:
            return False
        time.sleep(_LOOK_S)
    return True


def wrote_after(folder: Path, moment: float) -> bool:
    """Whether a snapshot was being written after a moment, in seconds since 1970."""
    if any(folder.glob(_PART)):
        return True
    return any(path.stat().st_mtime > moment for path in folder.glob(_WHOLE))
