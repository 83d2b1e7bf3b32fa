"""Lets a program under test compute on one core, each of the processes that share the tests on another one.

Threads of one step wait for each other at every layer, and spin meanwhile. Two programs with a thread for each
core take turns there, and wait for threads that do not run: twice to four times the time of one thread each.
"""

import os
import sys
from collections.abc import Callable
from typing import TypedDict


class _StartOptions(TypedDict, total=False):
    preexec_fn: Callable[[], None]


def keep_to_one_core() -> None:
    """Keep this process, and all that it starts, to one core."""
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


ON_ONE_CORE: _StartOptions = {"preexec_fn": keep_to_one_core} if sys.platform == "linux" else {}
"""For `subprocess`: other systems have no such setting, and there each thread stays."""
