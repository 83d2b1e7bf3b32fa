"""The words below a reply: where it is, how it ended, and its numbers."""

from PySide6.QtCore import QCoreApplication

from app.desktop.session.turns import ReplyState, ReplyTurn
from app.desktop.widgets.draft_words import acceptance_text, slower_text, speed_text
from app.desktop.widgets.figures import count_text, rate_text, seconds_text, tokens_text
from engine import DraftState, FinishReason, RequestState, TurnsDropped

translate = QCoreApplication.translate
_LEAST_GAIN = 1.05  # below, a reply's line says nothing of it


def progress_text(turn: ReplyTurn) -> str:
    """Return what happens at present."""
    if turn.state is ReplyState.WAITING_FOR_MODEL:
        return translate("ReplyOutcome", "Waiting for the model; your message is sent when it is loaded")
    if turn.request_state is RequestState.QUEUED:
        return translate("ReplyOutcome", "Waiting for its turn …")
    if turn.request_state is RequestState.PAUSED:
        return translate("ReplyOutcome", "Paused while other replies need the room")
    if turn.state is ReplyState.WRITING:
        return "" if turn.is_thinking else translate("ReplyOutcome", "Writing …")  # the fold above says that it thinks
    prefill = turn.prefill
    if prefill is None or prefill.num_done_tokens >= prefill.num_total_tokens:
        return translate("ReplyOutcome", "Starting …") if prefill else translate("ReplyOutcome", "Sent …")
    done, total = count_text(prefill.num_done_tokens), tokens_text(prefill.num_total_tokens)
    return translate("ReplyOutcome", "Reading · {done} of {total}").format(done=done, total=total)


def outcome_mark(turn: ReplyTurn) -> str:
    """Return what is unusual about the end of a reply, or nothing."""
    if turn.state is ReplyState.FAILED:
        return translate("ReplyOutcome", "Incomplete") if turn.has_words else translate("ReplyOutcome", "No reply")
    match turn.finish_reason:
        case FinishReason.ABORT:
            return translate("ReplyOutcome", "Stopped")
        case FinishReason.LENGTH:
            return translate("ReplyOutcome", "Ended at the token limit")
        case FinishReason.CONTEXT_FULL:
            return translate("ReplyOutcome", "Ended because the context is full")
        case FinishReason.STOP if not turn.text:
            return (
                translate("ReplyOutcome", "Ended after thinking, without an answer")
                if turn.thinking
                else _empty_reply(turn.stop_string)
            )
        case _:
            return ""


def outcome_numbers(turn: ReplyTurn) -> str:
    """Return tokens, rate and time to first token."""
    metrics = turn.metrics
    if metrics is None:
        return ""
    parts = [tokens_text(metrics.num_generated_tokens)]
    if turn.is_stored:
        return parts[0]
    if metrics.decode_rate is not None:
        parts.append(translate("ReplyOutcome", "{rate} tok/s").format(rate=rate_text(metrics.decode_rate)))
    if metrics.ttft_s is not None:
        parts.append(translate("ReplyOutcome", "first after {time}").format(time=seconds_text(metrics.ttft_s)))
    parts.append(_drafting_text(turn))
    return " · ".join(part for part in parts if part)


def outcome_details(turn: ReplyTurn) -> str:
    """Return the rest of the numbers, for a tool tip."""
    metrics = turn.metrics
    if metrics is None:
        return ""
    if turn.is_stored:
        return translate("ReplyOutcome", "Nothing was read or written for it: it was kept from an earlier time.")
    prompt, cached = tokens_text(metrics.num_prompt_tokens), count_text(metrics.num_cached_tokens)
    lines = [
        translate("ReplyOutcome", "Prompt: {prompt}, {cached} of them reused").format(prompt=prompt, cached=cached),
        translate("ReplyOutcome", "Prompt rate: {rate} tokens a second").format(rate=rate_text(metrics.prefill_rate)),
    ]
    if metrics.decode_s is not None:
        lines.append(translate("ReplyOutcome", "Writing took {time}").format(time=seconds_text(metrics.decode_s)))
    if metrics.num_thinking_tokens:
        tokens, time = tokens_text(metrics.num_thinking_tokens), seconds_text(metrics.thinking_s)
        lines.append(translate("ReplyOutcome", "Thinking: {tokens}, {time}").format(tokens=tokens, time=time))
    if drafted := acceptance_text(turn.speculative):
        lines.append(translate("ReplyOutcome", "Drafts: {accepted}").format(accepted=drafted))
    if slower := slower_text(turn.speculative):
        lines.append(slower)
    if metrics.seed is not None:
        lines.append(translate("ReplyOutcome", "Seed: {seed}").format(seed=metrics.seed))
    return "\n".join(lines)


def dropped_text(dropped: TurnsDropped) -> str:
    """Return what of the chat the model did not see."""
    count, num = count_text(dropped.num_messages), dropped.num_messages
    if num and dropped.is_reply_cut:
        one = translate("ReplyOutcome", "{count} earlier message and the beginning of this reply were left out: {why}")
        many = translate(
            "ReplyOutcome", "{count} earlier messages and the beginning of this reply were left out: {why}"
        )
    elif dropped.is_reply_cut:
        one = many = translate("ReplyOutcome", "The beginning of this reply was left out: {why}")
    else:
        one = translate("ReplyOutcome", "{count} earlier message was left out: {why}")
        many = translate("ReplyOutcome", "{count} earlier messages were left out: {why}")
    words = one if num == 1 else many
    return words.format(count=count, why=translate("ReplyOutcome", "the context is full"))


def dropped_details(dropped: TurnsDropped) -> str:
    """Return what that means, for a tool tip."""
    words = translate("ReplyOutcome", "The model did not see about {tokens} of this chat. Nothing was deleted.")
    return words.format(tokens=tokens_text(dropped.num_tokens))


def _drafting_text(turn: ReplyTurn) -> str:
    """Return what drafting gained or why it was given up; empty where neither is worth a word."""
    stats = turn.speculative
    if stats is not None and stats.state is DraftState.SLOWER:
        return translate("ReplyOutcome", "drafting off")
    is_gain = stats is not None and stats.net_speedup is not None and stats.net_speedup >= _LEAST_GAIN
    return translate("ReplyOutcome", "drafting {speed}").format(speed=speed_text(stats)) if is_gain else ""


def _empty_reply(stop_string: str | None) -> str:
    if stop_string is None:
        return translate("ReplyOutcome", "The model ended its reply at once")
    shown = stop_string.replace("\n", "\\n").replace("\t", "\\t")
    return translate("ReplyOutcome", "Empty: the reply began with the stop string “{text}”").format(text=shown)
