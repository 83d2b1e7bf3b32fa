"""What strict mode promises holds for other tokens than those it was found with, on this processor."""

from pathlib import Path

import pytest

from engine.backend import BatchPart, DecodeStatus
from engine.params import ModelParams
from engine.speculative.strict import strict_max
from tests.support.cold_check import load_llama

TEXT = "The cache holds every token once, and each later question reads only what is new. Nenne drei Farben: "


@pytest.mark.soak
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("num_context", [3, 60, 600])
def test_logits_are_the_same_to_the_bit_up_to_the_longest_step(
    starter_path: Path, num_context: int, n_threads: int
) -> None:
    backend = load_llama(starter_path, ModelParams(n_ctx=1024, n_threads=n_threads))
    try:
        most = strict_max(backend, seq_id=0, n_threads=n_threads)
        tokens = (backend.vocabulary.tokenize(TEXT, parse_special=False) * 40)[: num_context + most]
        assert backend.decode([BatchPart(0, 0, tokens[:num_context], wants_logits=False)]) is DecodeStatus.DONE
        backend.set_threads(1, n_threads)
        singles = []
        for position in range(num_context, num_context + most):
            backend.decode([BatchPart(0, position, [tokens[position]], wants_logits=True)])
            singles.append(backend.row_digest(0))
        for number in range(1, most + 1):
            assert backend.seq_rm(0, num_context)
            part = BatchPart(0, num_context, tokens[num_context : num_context + number], True, number - 1)
            assert backend.decode([part]) is DecodeStatus.DONE
            assert [backend.row_digest(row) for row in range(number)] == singles[:number], number
    finally:
        backend.close()
