"""Thousands of drawn grammars: none may end the process that samples, and all mean what llama.cpp takes them for."""

from pathlib import Path

import pytest

from tests.support.grammar_runs import compare_with_native, exit_code_of, sample_with_grammars

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
NUM_GRAMMARS = 2000


def test_no_grammar_and_setting_ends_the_process_that_samples(starter_path: Path) -> None:
    assert exit_code_of(sample_with_grammars, starter_path, NUM_GRAMMARS) == 0


def test_grammars_mean_what_llama_cpp_takes_them_for(starter_path: Path) -> None:
    assert exit_code_of(compare_with_native, starter_path, NUM_GRAMMARS) == 0
