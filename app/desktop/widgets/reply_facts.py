"""What is known of one reply, as groups of named values for the details card and as JSON for the clipboard."""

import dataclasses
import datetime
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec
from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication, QDateTime

from app.desktop.rendering.plain import isolated, shortened
from app.desktop.session.turns import ReplyState, ReplyTurn
from app.desktop.widgets.cache_causes import cause_text, source_text
from app.desktop.widgets.draft_words import drafter_text, reason_text, slower_text, speed_text
from app.desktop.widgets.figures import (
    LAST_SECOND,
    NOTHING,
    bytes_text,
    count_text,
    duration_text,
    rate_with_unit,
    seconds_text,
    tokens_text,
)
from app.desktop.widgets.param_row import declared_text
from app.desktop.widgets.reply_ledger import saved_text, start_text
from app.reply_measures import drafting_measures
from app.sampling_layers import changed_values, resolve
from engine import FinishReason, RequestMetrics, SamplingParams, param_infos

_MAX_TEXT = 120


@dataclasses.dataclass(frozen=True)
class Fact:
    """One named value.

    Attributes:
        help: what it means, for a tool tip.
        name: set for the facts that a button stands beside.
    """

    label: str
    value: str
    help: str = ""
    name: str = ""


@dataclasses.dataclass(frozen=True)
class FactGroup:
    """Facts under a title."""

    title: str
    facts: tuple[Fact, ...]


def fact_groups(turn: ReplyTurn) -> list[FactGroup]:
    """Return what a person is shown, without what is not known."""
    groups = [FactGroup(_tr("Reply"), _about(turn))]
    if turn.metrics is not None:
        groups.append(FactGroup(_tr("Speed"), _speed(turn.metrics)))
        groups.append(FactGroup(_tr("Tokens and memory"), _tokens(turn)))
    if drafting := _drafting(turn):
        groups.append(FactGroup(_tr("Drafting"), drafting))
    groups.append(FactGroup(_tr("Sampling"), _sampling(turn)))
    groups.append(FactGroup(_tr("Model and prompt"), _origin(turn)))
    return groups


def reply_json(turn: ReplyTurn) -> str:
    """Return everything that is known of a reply but its words."""
    known = {
        "model": turn.model_name,
        "model_fingerprint": turn.model_fingerprint or None,
        "template_hash": turn.template_hash or None,
        "created_at": _iso(turn.created_at),
        "state": turn.state.value,
        "finish_reason": turn.finish_reason and turn.finish_reason.value,
        "stop_string": turn.stop_string,
        "error": turn.error and msgspec.to_builtins(turn.error),
        "is_edited": turn.is_edited,
        "num_token_ids": len(turn.token_ids),
        "metrics": turn.metrics and turn.metrics.as_dict() | drafting_measures(turn.speculative),
        "cache": turn.cache and msgspec.to_builtins(turn.cache),
        "settings": dict(turn.settings),
    }
    return json.dumps(known, indent=2, ensure_ascii=False, default=_plain)


def used_seed(turn: ReplyTurn) -> int | None:
    """Return the seed that a reply was made with."""
    return turn.metrics.seed if turn.metrics is not None else None


def system_prompt_of(turn: ReplyTurn) -> str:
    """Return the system prompt that a reply was made with."""
    text = turn.settings.get("system_prompt")
    return text if isinstance(text, str) else ""


def _about(turn: ReplyTurn) -> tuple[Fact, ...]:
    return _known(
        Fact(_tr("Model"), isolated(shortened(turn.model_name, _MAX_TEXT)) or NOTHING),
        Fact(_tr("When"), _when(turn.created_at)),
        Fact(_tr("Ended"), _ending(turn), _tr("How the reply came to its end.")),
        Fact(_tr("Changed"), _tr("by you") if turn.is_edited else ""),
    )


def _ending(turn: ReplyTurn) -> str:
    if turn.is_open:
        return _tr("not yet")
    if turn.state is ReplyState.FAILED:
        error = isolated(shortened(turn.error.message, _MAX_TEXT)) if turn.error is not None else ""
        return _tr("by an error: {error}").format(error=error)
    if turn.finish_reason is FinishReason.STOP and turn.stop_string is not None:
        return _tr("at the stop string {text}").format(text=isolated(repr(shortened(turn.stop_string, 40))))
    return {
        FinishReason.STOP: _tr("by itself"),
        FinishReason.LENGTH: _tr("at the limit of its length"),
        FinishReason.CONTEXT_FULL: _tr("because the context was full"),
        FinishReason.ABORT: _tr("stopped by you"),
        None: "",
    }[turn.finish_reason]


def _speed(metrics: RequestMetrics) -> tuple[Fact, ...]:
    return _known(
        Fact(
            _tr("First token"),
            seconds_text(metrics.ttft_s),
            _tr("From the request's arrival at the engine to the first token that was sent (TTFT)."),
        ),
        Fact(
            _tr("Prompt speed"),
            rate_with_unit(metrics.prefill_rate),
            _tr("Prompt tokens that were computed, reused ones left out, by the time that took."),
        ),
        Fact(
            _tr("Prompt time"),
            seconds_text(metrics.prefill_s),
            _tr("From the first step on the prompt until the first token was chosen."),
        ),
        Fact(
            _tr("Writing speed"),
            rate_with_unit(metrics.decode_rate),
            _tr("Tokens after the first one, by the time from the first token to the last."),
        ),
        Fact(_tr("Writing time"), seconds_text(metrics.decode_s), _tr("From the first token to the last.")),
        Fact(_tr("Per token"), seconds_text(metrics.tpot_s), _tr("Mean time between two tokens.")),
        Fact(
            _tr("Thought"),
            "" if metrics.thinking_s is None else duration_text(metrics.thinking_s),
            _tr("From the first token until thinking ended."),
        ),
        Fact(
            _tr("Bandwidth used"),
            _percent(metrics.bandwidth_share),
            _tr("Bytes read for the tokens, as a share of what the memory was measured to give."),
        ),
    )


def _tokens(turn: ReplyTurn) -> tuple[Fact, ...]:
    metrics = turn.metrics
    assert metrics is not None
    cause = metrics.cache_miss_cause
    reused = _tr("{some} of {all}").format(
        some=count_text(metrics.num_cached_tokens), all=count_text(metrics.num_prompt_tokens)
    )
    if metrics.num_cached_tokens:
        reused = _tr("{count}, from {source}").format(count=reused, source=source_text(metrics.cache_source))
    again, start = "", start_text(turn.cache, turn.settings)
    if cause is not None:
        again = _tr("{start}, because {cause}") if start else _tr("because {cause}")
    num_again = turn.cache.num_recomputed_tokens if turn.cache is not None else 0
    return _known(
        Fact(_tr("Prompt"), tokens_text(metrics.num_prompt_tokens), _tr("The whole prompt, reused tokens included.")),
        Fact(_tr("Reused"), reused, _tr("Prompt tokens that were in the cache already and were not computed.")),
        Fact(
            _tr("Time saved"),
            saved_text(turn.cache),
            _tr("What computing the reused tokens would have taken, less what it took to bring them back."),
        ),
        Fact(
            _tr("Read again"),
            "" if cause is None else again.format(start=start, cause=cause_text(cause)),
            _tr("Why the rest of the prompt had to be computed."),
        ),
        Fact(
            _tr("Of it known before"),
            tokens_text(num_again) if num_again else "",
            _tr("Prompt tokens that had been computed for this chat before, and were once more."),
        ),
        Fact(_tr("Written"), tokens_text(metrics.num_generated_tokens), _tr("Tokens that were generated.")),
        Fact(
            _tr("Of these thinking"),
            tokens_text(metrics.num_thinking_tokens) if metrics.num_thinking_tokens else "",
            _tr("Generated tokens that were thinking, the marks around it included."),
        ),
        Fact(
            _tr("Peak memory"),
            "" if metrics.peak_memory_bytes is None else bytes_text(metrics.peak_memory_bytes),
            _tr("The most memory that the model's process had since the model was loaded."),
        ),
        Fact(_tr("Energy"), _number(metrics.joules_per_token, _tr("{number} J per token")), _tr("Joules per token.")),
        Fact(
            _tr("Cost"),
            _number(metrics.cost_per_million_tokens, _tr("{number} per million tokens")),
            _tr("At your price of energy."),
        ),
    )


def _drafting(turn: ReplyTurn) -> tuple[Fact, ...]:
    metrics, stats = turn.metrics, turn.speculative
    accepted = ""
    if metrics is not None and metrics.num_drafted_tokens:
        accepted = _accepted(metrics.num_accepted_tokens, metrics.num_drafted_tokens)
    length = None if stats is None else stats.mean_acceptance_length
    drafters = () if stats is None else stats.drafters
    return _known(
        Fact(_tr("Drafts accepted"), accepted, _tr("Proposed tokens that the model agreed with.")),
        *(
            Fact(drafter_text(item.drafter), _accepted(item.num_accepted_tokens, item.num_drafted_tokens))
            for item in drafters
            if len(drafters) > 1
        ),
        Fact(
            _tr("Tokens a step"),
            _number(length, "{number}"),
            _tr("What a drafted step brought on average, the token after the accepted ones included."),
        ),
        Fact(
            _tr("Net speed"),
            speed_text(stats),
            _tr("Against plain steps that were measured in between; drafting and tries are counted."),
        ),
        Fact(_tr("Given up"), slower_text(stats)),
        Fact(_tr("Not drafted"), reason_text(stats)),
    )


def _accepted(num_accepted: int, num_drafted: int) -> str:
    return _tr("{some} of {all} ({share})").format(
        some=count_text(num_accepted),
        all=count_text(num_drafted),
        share=_percent(num_accepted / num_drafted) if num_drafted else NOTHING,
    )


def _sampling(turn: ReplyTurn) -> tuple[Fact, ...]:
    kept = turn.settings.get("sampling")
    facts = []
    if isinstance(kept, Mapping):
        params, infos = resolve({}, {}, kept).params, param_infos(SamplingParams)
        for name, value in changed_values(params, SamplingParams()).items():
            if name == "seed":
                continue
            info = infos.get(name)
            label = declared_text(info.label) if info is not None else _tr(str(_OTHER_LABELS.get(name, name)))
            facts.append(Fact(label, _value_text(value), declared_text(info.help) if info is not None else ""))
        if facts:
            facts.append(Fact(_tr("All others"), _tr("as by default")))
        else:
            facts.append(Fact(_tr("Settings"), _tr("all as by default")))
    seed = used_seed(turn)
    if seed is not None:
        help_text = _tr("The seed that was used. The same seed, settings and cache state give the same reply.")
        facts.append(Fact(_tr("Seed"), str(seed), help_text, "seed"))
    return tuple(facts) or (Fact(_tr("Settings"), _tr("not known")),)


_OTHER_LABELS = {
    "stop": QT_TRANSLATE_NOOP("ReplyFacts", "Stop strings"),
    "samplers": QT_TRANSLATE_NOOP("ReplyFacts", "Samplers"),
    "logit_bias": QT_TRANSLATE_NOOP("ReplyFacts", "Logit bias"),
    "grammar": QT_TRANSLATE_NOOP("ReplyFacts", "Grammar"),
    "json_schema": QT_TRANSLATE_NOOP("ReplyFacts", "JSON schema"),
}


def _origin(turn: ReplyTurn) -> tuple[Fact, ...]:
    chat_format = turn.settings.get("chat_format")
    return _known(
        Fact(
            _tr("Chat format"),
            _chat_format_text(chat_format) if isinstance(chat_format, str) else "",
            _tr("What made a prompt of the chat."),
        ),
        Fact(
            _tr("Adapters"),
            _adapters_text(turn.settings.get("adapters")),
            _tr("LoRA adapters, each with its strength."),
        ),
        Fact(_tr("Model file"), isolated(turn.model_fingerprint[:16]), _tr("Fingerprint of the model file.")),
        Fact(_tr("Template"), isolated(turn.template_hash[:16]), _tr("Hash of the chat template.")),
        Fact(
            _tr("Token ids"),
            _tr("{count} kept").format(count=count_text(len(turn.token_ids))) if turn.token_ids else _tr("none kept"),
            _tr("The tokens themselves are kept with a reply, so that going on from it is exact."),
        ),
    )


def _chat_format_text(name: str) -> str:
    words = {"file": _tr("as in the file"), "completion": _tr("none: plain text goes on")}
    return words.get(name) or isolated(shortened(name, _MAX_TEXT))


def _adapters_text(kept: object) -> str:
    parts = []
    for entry in kept if isinstance(kept, list) else []:
        match entry:
            case {"path": str() as path, "scale": int() | float() as scale}:
                parts.append(f"{shortened(PurePath(path).stem, 40)} × {scale:g}")
    return isolated(shortened(", ".join(parts), _MAX_TEXT))


def _known(*facts: Fact) -> tuple[Fact, ...]:
    return tuple(fact for fact in facts if fact.value and fact.value != NOTHING)


def _when(seconds: float | None) -> str:
    if seconds is None or not 0 <= seconds <= LAST_SECOND:
        return ""
    when = QDateTime.fromMSecsSinceEpoch(int(seconds * 1000))
    return when.toString("yyyy-MM-dd HH:mm:ss")  # read in one way everywhere


def _iso(seconds: float | None) -> str | None:
    if seconds is None or not 0 <= seconds <= LAST_SECOND:
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return isolated(
            shortened(", ".join(item if isinstance(item, str) else repr(item) for item in value), _MAX_TEXT)
        )
    return isolated(shortened(f"{value:.6g}" if isinstance(value, float) else str(value), _MAX_TEXT))


def _percent(share: float | None) -> str:
    return "" if share is None else _tr("{share} %").format(share=f"{share * 100:.0f}")


def _number(number: float | None, text: str) -> str:
    return "" if number is None else text.format(number=f"{number:.3g}")


def _plain(value: object) -> Any:
    """Return something of a reply's settings as JSON can hold it."""
    try:
        return msgspec.to_builtins(value)
    except TypeError:
        return str(value)


def _tr(text: str) -> str:
    return QCoreApplication.translate("ReplyFacts", text)
