"""What a run of drafting has measured so far, as a file that is whole at any time, and can be gone on with."""

import json
from pathlib import Path
from typing import Any

from benchmarks.speculation_cells import Drafted, Key, Pair, Pairs, StepCosts, Whole


class Record:
    """Everything that was measured.

    Args:
        path: where it is written.

    Attributes:
        machine: in words.
        costs: of steps, by target.
        notes: sentences for whoever reads the result.
    """

    def __init__(self, path: Path, machine: str) -> None:
        self.machine = machine
        self.pairs: Pairs = {}
        self.costs: dict[str, StepCosts] = {}
        self.notes: list[str] = []
        self._path = path

    def write(self) -> None:
        """Write it, in place of what was there."""
        content = {
            "machine": self.machine,
            "notes": self.notes,
            "pairs": [
                {"cell": key._asdict(), "pairs": [[reply._asdict() for reply in pair] for pair in each]}
                for key, each in self.pairs.items()
            ],
            "step_s": {
                target: {"target": dict(each.target_s), "draft": each.draft_s} for target, each in self.costs.items()
            },
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_name(f"{self._path.name}.part")
        part.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
        part.replace(self._path)

    def read(self) -> None:
        """Take over what an earlier run has written; nothing where there is none."""
        if not self._path.exists():
            return
        content = json.loads(self._path.read_text("utf-8"))
        self.machine = content["machine"]
        for entry in content["pairs"]:
            self.pairs[Key(**entry["cell"])] = [Pair(*map(_whole, pair)) for pair in entry["pairs"]]
        for target, costs in content["step_s"].items():
            seconds = {int(count): each for count, each in costs["target"].items()}
            self.costs[target] = StepCosts(seconds, costs["draft"])


def _whole(fields: dict[str, Any]) -> Whole:
    drafted = tuple(Drafted(*each) for each in fields["drafted"])
    return Whole(**{**fields, "token_ids": tuple(fields["token_ids"]), "drafted": drafted})
