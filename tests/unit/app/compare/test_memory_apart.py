"""The bandwidth of the machine is measured apart: the memory that takes is none of a model's."""

from pathlib import Path

from app.settings import Settings
from engine import Command, Generate, LoadModel, MeasureMachine
from tests.unit.app.compare.runs import EchoClient, begin, column, finish, plan


class NotingClient(EchoClient):
    """Notes what kinds of commands it got."""

    def __init__(self, noted: list[list[type]]) -> None:
        super().__init__()
        self.kinds: list[type] = []
        noted.append(self.kinds)

    def send(self, command: Command) -> None:
        self.kinds.append(type(command))
        super().send(command)


def compare(folder: Path, settings: Settings) -> list[list[type]]:
    """Compare two models twice and return what each engine was told."""
    noted: list[list[type]] = []
    clients = iter(lambda: NotingClient(noted), None)
    finish(begin(plan(column("fake:a"), column("fake:b"), repeats=2), folder, clients=clients, settings=settings))
    return [kinds for kinds in noted if LoadModel in kinds]


def test_engine_that_measured_the_machine_answers_nothing(tmp_path: Path) -> None:
    noted = compare(tmp_path, Settings())
    assert [MeasureMachine in kinds for kinds in noted].count(True) == 1
    assert not any(MeasureMachine in kinds and Generate in kinds for kinds in noted)


def test_nothing_is_measured_or_loaded_twice_where_the_bandwidth_is_known(tmp_path: Path) -> None:
    known = Settings(read_bandwidth={str(count): 1e10 for count in range(65)})
    noted = compare(tmp_path, known)
    assert not any(MeasureMachine in kinds for kinds in noted)
    assert len(noted) == 3  # the second repeat begins with the model that the first one ended with
