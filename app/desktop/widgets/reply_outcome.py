"""The words below a reply: where it is, how it ended, and its numbers."""

from app.desktop.session.turns import ReplyState, ReplyTurn
from app.desktop.widgets.figures import count_text, rate_text, seconds_text, tokens_text
from engine import FinishReason, RequestState, TurnsDropped


def progress_text(turn: ReplyTurn) -> str:
    """Return what happens at present."""
    if turn.state is ReplyState.WAITING_FOR_MODEL:
        return "Waiting for the model; your message is sent when it is loaded"
    if turn.request_state is RequestState.QUEUED:
        return "Waiting for its turn …"
    if turn.request_state is RequestState.PAUSED:
        return "Paused while other replies need the room"
    if turn.state is ReplyState.WRITING:
        return "" if turn.is_thinking else "Writing …"  # the fold above says that it thinks
    prefill = turn.prefill
    if prefill is None or prefill.num_done_tokens >= prefill.num_total_tokens:
        return "Starting …" if prefill else "Sent …"
    return f"Reading · {count_text(prefill.num_done_tokens)} of {tokens_text(prefill.num_total_tokens)}"


def outcome_mark(turn: ReplyTurn) -> str:
    """Return what is unusual about the end of a reply, or nothing."""
    if turn.state is ReplyState.FAILED:
        return "Incomplete" if turn.has_words else "No reply"
    match turn.finish_reason:
        case FinishReason.ABORT:
            return "Stopped"
        case FinishReason.LENGTH:
            return "Ended at the token limit"
        case FinishReason.CONTEXT_FULL:
            return "Ended because the context is full"
        case FinishReason.STOP if not turn.text:
            return "Ended after thinking, without an answer" if turn.thinking else _empty_reply(turn.stop_string)
        case _:
            return ""


def outcome_numbers(turn: ReplyTurn) -> str:
    """Return tokens, rate and time to first token."""
    metrics = turn.metrics
    if metrics is None:
        return ""
    parts = [tokens_text(metrics.num_generated_tokens)]
    if metrics.decode_rate is not None:
        parts.append(f"{rate_text(metrics.decode_rate)} tok/s")
    if metrics.ttft_s is not None:
        parts.append(f"first after {seconds_text(metrics.ttft_s)}")
    return " · ".join(parts)


def outcome_details(turn: ReplyTurn) -> str:
    """Return the rest of the numbers, for a tool tip."""
    metrics = turn.metrics
    if metrics is None:
        return ""
    lines = [
        f"Prompt: {tokens_text(metrics.num_prompt_tokens)}, {count_text(metrics.num_cached_tokens)} of them reused",
        f"Prompt rate: {rate_text(metrics.prefill_rate)} tokens a second",
    ]
    if metrics.decode_s is not None:
        lines.append(f"Writing took {seconds_text(metrics.decode_s)}")
    if metrics.num_thinking_tokens:
        lines.append(f"Thinking: {tokens_text(metrics.num_thinking_tokens)}, {seconds_text(metrics.thinking_s)}")
    if metrics.seed is not None:
        lines.append(f"Seed: {metrics.seed}")
    return "\n".join(lines)


def dropped_text(dropped: TurnsDropped) -> str:
    """Return what of the chat the model did not see."""
    parts = []
    if dropped.num_messages:
        parts.append(f"{count_text(dropped.num_messages)} earlier message{'' if dropped.num_messages == 1 else 's'}")
    if dropped.is_reply_cut:
        parts.append("the beginning of this reply")
    verb = "was" if len(parts) == 1 and (dropped.is_reply_cut or dropped.num_messages == 1) else "were"
    words = " and ".join(parts)
    return f"{words[:1].upper()}{words[1:]} {verb} left out: the context is full"


def dropped_details(dropped: TurnsDropped) -> str:
    """Return what that means, for a tool tip."""
    return f"The model did not see about {tokens_text(dropped.num_tokens)} of this chat. Nothing was deleted."


def _empty_reply(stop_string: str | None) -> str:
    if stop_string is None:
        return "The model ended its reply at once"
    shown = stop_string.replace("\n", "\\n").replace("\t", "\\t")
    return f"Empty: the reply began with the stop string “{shown}”"
