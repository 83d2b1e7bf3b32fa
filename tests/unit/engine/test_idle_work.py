"""What is done while nothing is computed, in which order: nothing is read behind the tokens of another chat."""

from engine.core import Engine
from engine.messages import Finished, Prepared
from engine.metrics import CacheSource
from engine.params import CacheParams, SamplingParams
from engine.preparing import Preparation
from engine.prompt_cache import PromptCache
from engine.sequence import Prompt
from tests.unit.engine.fake_engine import make_backend, make_prompt, run, step_until, tokens_of


def test_end_of_a_turn_is_not_read_behind_what_has_taken_its_slot_meanwhile():
    engine = Engine(make_backend(n_seq_max=1), prompt_cache=PromptCache(CacheParams(ram_mib=64)))
    ahead = tuple(tokens_of("<|im_end|>\n<|im_start|>user\n"))
    chat = make_prompt("a", "what does the cache hold")._replace(next_turn_tokens=ahead)
    events = engine.add(chat)
    step_until(engine, events, lambda: any(isinstance(event, Finished) for event in events))
    assert engine.idle.is_due
    policy = tokens_of("<|im_start|>user\n" + "Whoever comes late rings twice. " * 8)
    wanted = Prompt("p", [*policy, 0], SamplingParams(max_tokens=1), 0, 0.0, chat_id="p")
    events += engine.idle.preparations.add(Preparation(wanted, "policy.md")) + run(engine)
    [prepared] = [event for event in events if isinstance(event, Prepared)]
    [slot] = [kept for kept in engine.room.describe() if kept.source is CacheSource.SLOT]
    assert (slot.chat_id, slot.num_tokens) == ("p", prepared.num_tokens)
