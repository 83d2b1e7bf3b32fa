"""What `fireside compare` adds to what `fireside bench` measures of the same model: `python -m benchmarks.compare`.

The same question goes through both in turns, each with an engine of its own that was just loaded, so that a machine
that changes its speed changes both; ratios are medians over the pairs. `cpu_s` is the processor time of the engine and
of whoever asks, for one reply with all that is kept of it: other programs do not change it much.
"""

import argparse
import datetime
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from app.bench import BenchDriver
from app.bench.prompts import Messages, Prompts
from app.bench.record import processor_name
from app.bench.statistics import median_ratio
from app.compare.events import CellDone, CellStarted, RunEvent
from app.compare.plan import column_of, fair_sampling, new_comparison
from app.compare.results import PromptItem
from app.compare.run_folder import begin_run
from app.compare.runner import Services
from app.model_choice import ModelChoice, choose_model
from app.paths import find_paths
from app.settings import Settings
from engine import ModelParams, ProcessClient, SamplingParams

_MEASURES = ("decode_rate", "prefill_rate", "ttft_s", "cpu_s")
_WARM_UP_TOKENS = 8
_PAUSE_S = 0.2
_N_CTX = 2048


class _Processor:
    """The processor time of an engine and of this process, from a moment on."""

    def __init__(self) -> None:
        self.client = ProcessClient()
        self._began = 0.0

    def begin(self) -> None:
        """Note where it stands."""
        self._began = self._now()

    def seconds(self) -> float:
        """Return what was used since."""
        return self._now() - self._began

    def _now(self) -> float:
        times = psutil.Process(self.client.pid).cpu_times()
        return times.user + times.system + time.process_time()


def _bench(choice: ModelChoice, chat: Messages, params: ModelParams, num_tokens: int) -> dict[str, float]:
    """Measure as `bench` does: after the first text on the caller's clock, the rest by the engine's."""
    sampling = SamplingParams(temperature=0, seed=0)
    processor = _Processor()
    with BenchDriver(processor.client) as driver:
        driver.describe()
        driver.load(str(choice.path), params)
        driver.measure_machine()
        driver.ask(chat[-1:], _WARM_UP_TOKENS, sampling)
        time.sleep(_PAUSE_S)  # until what is read ahead is read
        processor.begin()
        reply = driver.ask(chat, num_tokens, sampling)
        used_s = processor.seconds()
    metrics = reply.finished.metrics
    return {
        "decode_rate": reply.decode_rate or 0.0,
        "prefill_rate": metrics.prefill_rate or 0.0,
        "ttft_s": reply.ttft_s,
        "cpu_s": used_s,
    }


def _compare(choice: ModelChoice, chat: Messages, params: ModelParams, num_tokens: int) -> dict[str, float]:
    column = column_of(choice, params=params, sampling=fair_sampling(num_tokens))
    plan = new_comparison([column], [PromptItem(id="1", messages=chat)])
    processor, used_s = _Processor(), 0.0

    def hear(event: RunEvent) -> None:
        nonlocal used_s
        if isinstance(event, CellStarted):
            time.sleep(_PAUSE_S)
            processor.begin()
        elif isinstance(event, CellDone):
            used_s = processor.seconds()

    with tempfile.TemporaryDirectory() as folder:
        run, _ = begin_run(plan, find_paths(folder), Services(lambda: processor.client, Settings(), hear))
        run.run()
        run.close()
    (cell,) = run.comparison().cells
    if cell.error:
        sys.exit(cell.error)
    return {**cell.values, "cpu_s": used_s}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="starter", help="a GGUF file; default: the starter model")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=128, help="length of the reply")
    parser.add_argument("--threads", type=int, default=0, help="of both; 0 is as each does by itself")
    arguments = parser.parse_args()
    choice = choose_model(arguments.model, Settings())
    params = ModelParams(n_ctx=_N_CTX, n_seq_max=1, n_threads=arguments.threads)
    values: dict[str, dict[str, list[float]]] = {"bench": {}, "compare": {}}
    for number in range(arguments.repeats):
        chat = Prompts(lambda messages: 1).short(number)
        order = (("bench", _bench), ("compare", _compare))
        for name, measure in order if number % 2 else reversed(order):
            found = measure(choice, chat, params, arguments.tokens)
            for key in _MEASURES:
                values[name].setdefault(key, []).append(found[key])
        print(f"pair {number + 1} of {arguments.repeats}", file=sys.stderr, flush=True)
    print(
        f"{processor_name()}, {os.cpu_count()} processors; {Path(choice.path).stem}; "
        f"{datetime.date.today().isoformat()}; load average {os.getloadavg()[0]:.1f}\n"
    )
    print("| measure | bench | compare | compare / bench |\n|---|---|---|---|")
    for key in _MEASURES:
        one, other = values["bench"][key], values["compare"][key]
        ratio = median_ratio(other, one) or 0.0
        print(f"| {key} | {statistics.median(one):.3f} | {statistics.median(other):.3f} | {ratio:.3f} |")


if __name__ == "__main__":
    main()
