"""Engines that are measured keep no copies of chats: they would count as memory of the model, and cost time."""

from pathlib import Path

from app.bench.driver import BenchDriver
from engine import Command, Generate, InprocClient, LoadModel, ModelParams
from tests.unit.app.compare.runs import begin, column, finish, plan


class Listening(InprocClient):
    """An engine without a model, that keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(fake=True)
        self.sent: list[Command] = []

    def send(self, command: Command) -> None:
        self.sent.append(command)
        super().send(command)


def check(client: Listening) -> None:
    loads = [command for command in client.sent if isinstance(command, LoadModel)]
    assert loads
    assert all(load.cache is not None and load.cache.ram_mib == 0 and not load.cache.folder for load in loads)


def test_engines_of_a_comparison_keep_nothing_beside_the_context(tmp_path: Path):
    engines = [Listening(), Listening()]  # one measures the machine, and ends
    finish(begin(plan(column()), tmp_path, clients=engines))
    asked = [each for each in engines if any(isinstance(command, Generate) for command in each.sent)]
    assert len(asked) == 1
    check(asked[0])


def test_engine_of_a_benchmark_keeps_nothing_beside_the_context():
    client = Listening()
    with BenchDriver(client) as driver:
        driver.load("fake:", ModelParams(n_ctx=512))
    check(client)
