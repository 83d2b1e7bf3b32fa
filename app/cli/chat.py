"""`fireside chat`: answers a prompt, a pipe or a file of turns and exits; without any of them, the interactive chat."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from app.cli.chat_options import (
    Conversation,
    add_chat_arguments,
    conversations_of,
    model_params,
    sampling_params,
)
from app.cli.chat_plan import ChatPlan, make_plan, remember_model
from app.cli.outcome import ExitCode, exit_code_of, print_event, print_failed, show_error
from app.cli.session import Answer, ChatSession
from app.cli.streams import decode_text, is_terminal, read_standard_input
from app.cli.terminal_text import is_blank, safe_text
from app.errors import UsageError
from app.paths import Paths
from app.settings import SettingsStore
from engine import (
    ChatMessage,
    Delta,
    EngineClient,
    EngineError,
    EngineUnavailable,
    ModelDescription,
    PrefillProgress,
    ProcessClient,
    Role,
)

MakeClient = Callable[[bool], EngineClient]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this command takes."""
    add_chat_arguments(parser)


def run(options: argparse.Namespace, paths: Paths, make_client: MakeClient | None = None) -> ExitCode:
    """Do it.

    Args:
        make_client: stands in for the engine process; takes whether it is to be the fake one.

    Raises:
        AppError, ModelsError, EngineError: it could not begin.
    """
    sampling, params = sampling_params(options), model_params(options)
    conversations = _conversations(options)
    store = SettingsStore(paths.settings_file)
    settings, notice = store.load()
    if notice:
        print(f"fireside: {notice}", file=sys.stderr)
    plan = make_plan(options, settings, params, sampling)
    client = make_client(options.fake_engine) if make_client else ProcessClient(fake=options.fake_engine)
    with ChatSession(client) as session:
        if conversations is None:
            from app.cli.interactive import InteractiveChat  # needs prompt_toolkit, which takes a while to load

            return InteractiveChat(session, plan, paths, store).run()
        with session.interrupted_by_ctrl_c():
            return _OneShot(session, plan, store, as_json=options.json).run(conversations)


def _conversations(options: argparse.Namespace) -> list[Conversation] | None:
    """Return what is to be asked, or None where a person sits at the terminal and will type it."""
    if options.turns is not None:
        if options.prompt is not None:
            raise UsageError("There is a PROMPT and a file of turns.", "Give one of them.")
        conversations = conversations_of(_read_file(options.turns))
        if not conversations:
            raise UsageError(f"{options.turns} holds no message.", "Write one message on each line.")
        return conversations
    prompt: str | None = options.prompt
    if prompt is None:
        if is_terminal(sys.stdin) and is_terminal(sys.stdout) and not options.json:
            return None
        prompt, notice = read_standard_input()
        if notice:
            print(f"fireside: {notice}", file=sys.stderr)
        # The line break that ends a file is not part of what is asked.
        prompt = prompt.removesuffix("\n").removesuffix("\r")
    if is_blank(prompt):
        raise UsageError("There is nothing to ask: the prompt is empty.", 'Give one, as in `fireside chat "Hello"`.')
    return [Conversation((prompt,))]


def _read_file(name: str) -> str:
    try:
        text, notice = decode_text(Path(name).read_bytes())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{name} cannot be read: {reason}.", "Give the path of a text file.") from error
    if notice:
        print(f"fireside: {notice}", file=sys.stderr)
    return text


class _OneShot:
    """Loads, asks everything in turn, and prints what comes."""

    def __init__(self, session: ChatSession, plan: ChatPlan, store: SettingsStore, *, as_json: bool) -> None:
        self._session = session
        self._plan = plan
        self._store = store
        self._printer: _PlainPrinter | _JsonPrinter = _JsonPrinter() if as_json else _PlainPrinter()

    def run(self, conversations: list[Conversation]) -> ExitCode:
        for _ in self._session.load(self._plan.path, self._plan.params):
            pass
        if self._session.model is not None:
            self._printer.loaded(self._session.model, self._plan.label)
        remember_model(self._store, self._plan.last_model)
        worst = ExitCode.DONE
        for number, conversation in enumerate(conversations, 1):
            code = self._converse(conversation, chat_id=f"chat-{number}")
            if code in (ExitCode.ENGINE_DIED, ExitCode.INTERRUPTED):
                return code
            worst = max(worst, code)
        return worst

    def _converse(self, conversation: Conversation, *, chat_id: str) -> ExitCode:
        system = self._plan.system
        history: list[ChatMessage] = [ChatMessage(Role.SYSTEM, system)] if system else []
        worst = ExitCode.DONE
        for turn in conversation.turns:
            question = ChatMessage(Role.USER, turn)
            try:
                answer = self._ask((*history, question), chat_id)
            except EngineError as error:
                self._printer.failed(error)
                code = exit_code_of(error)
                if isinstance(error, EngineUnavailable):
                    return code
                worst = max(worst, code)
                continue  # the question is dropped: its answer is not there to go on from
            if self._session.was_interrupted:
                return ExitCode.INTERRUPTED
            history += [question, ChatMessage(Role.ASSISTANT, answer.finished.text)]
        return worst

    def _ask(self, messages: tuple[ChatMessage, ...], chat_id: str) -> Answer:
        self._printer.begin()
        for item in self._session.ask(messages, self._plan.sampling, chat_id=chat_id):
            match item:
                case PrefillProgress():
                    self._printer.prefill(item)
                case Delta():
                    self._printer.delta(item.text)
                case Answer():
                    self._printer.finished(item)
                    return item
        raise RuntimeError("a request ended without an answer")


class _JsonPrinter:
    """Prints events, one a line."""

    def loaded(self, model: ModelDescription, label: str) -> None:
        print_event("loaded", model=label, **msgspec.to_builtins(model))

    def begin(self) -> None:
        """Nothing marks the beginning of a request."""

    def prefill(self, progress: PrefillProgress) -> None:
        print_event(
            "prefill",
            done=progress.num_done_tokens,
            total=progress.num_total_tokens,
            cached=progress.num_cached_tokens,
        )

    def delta(self, text: str) -> None:
        print_event("delta", text=text)

    def finished(self, answer: Answer) -> None:
        finished = answer.finished
        print_event(
            "finished",
            text=finished.text,
            finish_reason=finished.finish_reason.value,
            stop_string=finished.stop_string,
            metrics=finished.metrics.as_dict(),
            client_ttft_s=answer.client_ttft_s,
        )

    def failed(self, error: EngineError) -> None:
        print_failed(error)
        show_error(error)


class _PlainPrinter:
    """Prints the text of the replies as it comes, and nothing else."""

    def __init__(self) -> None:
        self._is_terminal = is_terminal(sys.stdout)
        self._num_requests = 0
        self._last = ""

    def loaded(self, model: ModelDescription, label: str) -> None:
        for notice in model.notices:
            print(f"fireside: {notice}", file=sys.stderr)

    def begin(self) -> None:
        if self._num_requests:
            print()
        self._num_requests += 1
        self._last = ""

    def prefill(self, progress: PrefillProgress) -> None:
        """Progress is not part of the reply."""

    def delta(self, text: str) -> None:
        print(safe_text(text) if self._is_terminal else text, end="", flush=True)
        self._last = text or self._last

    def finished(self, answer: Answer) -> None:
        self._end_line()

    def failed(self, error: EngineError) -> None:
        self._end_line()
        show_error(error)

    def _end_line(self) -> None:
        if self._last and not self._last.endswith("\n"):
            print(flush=True)
