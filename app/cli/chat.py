"""`fireside chat`: answers a prompt, a pipe or a file of turns and exits; without any of them, the interactive chat."""

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Callable

import msgspec

from app.adapter_files import open_adapter_files
from app.battery import may_read_ahead
from app.cli.adapter_commands import with_named_adapters
from app.cli.attached import beginning_of, prepare, prepared_sentence, read_documents, wait_until_written
from app.cli.cache import show_refusal
from app.cli.chat_options import (
    Conversation,
    add_chat_arguments,
    chat_cache,
    conversations_of,
    model_params,
    sampling_params,
)
from app.cli.chat_plan import ChatPlan, make_plan, note_chat_format, remember_model
from app.cli.draft_commands import (
    add_draft_arguments,
    drafting_line,
    load_draft,
    print_draft_event,
    show_refused,
)
from app.cli.kept_chats import KeptChat, KeptChats, KeptReply
from app.cli.outcome import (
    CONTEXT_FULL,
    FROM_CACHE,
    ONLY_THOUGHT,
    ExitCode,
    dropped_sentence,
    exit_code_of,
    print_event,
    print_failed,
    show_error,
)
from app.cli.reply_printer import ReplyPrinter
from app.cli.session import Answer, ChatSession
from app.cli.streams import is_terminal, read_standard_input, read_text_file
from app.cli.terminal_text import safe_text
from app.document_text import Document, join_documents
from app.energy import EnergyMeter
from app.errors import UsageError
from app.known_models import KnownModels
from app.memory_record import MemoryRecord
from app.paths import Paths
from app.reply_measures import completed, measures_of
from app.settings import SettingsStore
from engine import (
    CacheSource,
    ChatMessage,
    Delta,
    EngineClient,
    EngineError,
    EngineUnavailable,
    FinishReason,
    ModelDescription,
    PrefillProgress,
    ProcessClient,
    Role,
    TurnsDropped,
    is_blank,
)

MakeClient = Callable[[bool], EngineClient]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this command takes."""
    add_chat_arguments(parser)
    add_draft_arguments(parser.add_argument_group("drafting"))


def run(options: argparse.Namespace, paths: Paths, make_client: MakeClient | None = None) -> ExitCode:
    """Do it.

    Args:
        make_client: stands in for the engine process; takes whether it is to be the fake one.

    Raises:
        AppError, ModelsError, EngineError: it could not begin.
    """
    sampling, params = sampling_params(options), model_params(options)
    documents = read_documents(options.document)
    conversations = _conversations(options)
    store = SettingsStore(paths.settings_file)
    settings, notice = store.load()
    if notice:
        print(f"fireside: {notice}", file=sys.stderr)
    plan = with_named_adapters(make_plan(options, settings, params, sampling, paths), open_adapter_files(paths))
    client = make_client(options.fake_engine) if make_client else ProcessClient(fake=options.fake_engine)
    with KeptChats.open(paths) if options.save else KeptChats() as kept:
        code = _chat(client, plan, paths, options, kept, conversations=conversations, documents=documents)
    return code or (ExitCode.REQUEST_FAILED if kept.has_lost else ExitCode.DONE)


def _chat(
    client: EngineClient,
    plan: ChatPlan,
    paths: Paths,
    options: argparse.Namespace,
    kept: KeptChats,
    *,
    conversations: list[Conversation] | None,
    documents: tuple[Document, ...],
) -> ExitCode:
    store = SettingsStore(paths.settings_file)
    settings = store.load()[0]
    session = ChatSession(client, memory=MemoryRecord.in_paths(paths))
    with contextlib.ExitStack() as ending:
        ending.callback(lambda: show_refusal(session.events, as_json=options.json))  # much is only written at the end
        ending.enter_context(session)
        session.may_read_ahead = not options.no_cache and may_read_ahead(settings.read_ahead_above)
        session.cache = chat_cache(options, settings, paths.prompt_cache_dir)
        if conversations is None:
            from app.cli.interactive import InteractiveChat  # needs prompt_toolkit, which takes a while to load

            session.drafts = True
            return InteractiveChat(
                session, plan, paths, store, documents=documents, prepares=options.prepare, kept=kept
            ).run()
        with session.interrupted_by_ctrl_c():
            known = KnownModels.in_paths(paths)
            once = _OneShot(session, plan, store, known, documents, kept=kept, as_json=options.json)
            return once.run(conversations, prepares=options.prepare)


def _conversations(options: argparse.Namespace) -> list[Conversation] | None:
    """Return what is to be asked, or None where a person sits at the terminal and will type it."""
    if options.turns is not None:
        if options.prompt is not None:
            raise UsageError("There is a PROMPT and a file of turns.", "Give one of them.")
        conversations = conversations_of(read_text_file(options.turns))
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
        if options.prepare:
            return []
        raise UsageError("There is nothing to ask: the prompt is empty.", 'Give one, as in `fireside chat "Hello"`.')
    return [Conversation((prompt,))]


class _OneShot:
    """Loads, asks everything in turn, and prints what comes."""

    def __init__(
        self,
        session: ChatSession,
        plan: ChatPlan,
        store: SettingsStore,
        known: KnownModels,
        documents: tuple[Document, ...],
        *,
        kept: KeptChats,
        as_json: bool,
    ) -> None:
        self._session = session
        self._plan = plan
        self._store = store
        self._known = known
        self._documents = documents
        self._as_json = as_json
        self._kept = kept
        self._is_draft_refused = False
        self._settings = store.load()[0]
        self._meter = EnergyMeter(self._settings.power_watts)
        self._printer: _PlainPrinter | _JsonPrinter = _JsonPrinter() if as_json else _PlainPrinter()

    def run(self, conversations: list[Conversation], *, prepares: bool = False) -> ExitCode:
        if prepares:  # before the model is loaded for nothing
            beginning_of(self._system, self._documents)
        for _ in self._session.load(self._plan.path, self._plan.params, self._known):
            pass
        if self._session.model is not None:
            self._plan, notice = note_chat_format(self._store, self._plan, self._session.model)
            self._printer.loaded(self._session.model, self._plan.label)
            if notice:
                print(f"fireside: {notice}", file=sys.stderr)
        outcome = load_draft(
            *(self._session, self._plan.path, self._plan.drafting, self._plan.params),
            is_reproducible=self._plan.sampling.reproducible,
        )
        if outcome is not None:
            self._is_draft_refused = outcome.draft is None
            show_refused(outcome)
            if self._as_json:
                print_draft_event(outcome)
        remember_model(self._store, self._plan.last_model)
        prepared = None
        if prepares:
            prepared = prepare(self._session, self._plan, self._system, self._documents, as_json=self._as_json)
            if prepared is None:
                return ExitCode.INTERRUPTED
            if not self._as_json:
                print(f"fireside: {prepared_sentence(prepared)}", file=sys.stderr)
        worst = self._converse_in_all(conversations)
        if prepared is not None and worst not in (ExitCode.ENGINE_DIED, ExitCode.INTERRUPTED):
            wait_until_written(self._session, prepared)
        return worst

    @property
    def _system(self) -> tuple[ChatMessage, ...]:
        return (ChatMessage(Role.SYSTEM, self._plan.system),) if self._plan.system else ()

    def _converse_in_all(self, conversations: list[Conversation]) -> ExitCode:
        worst = ExitCode.DONE
        for conversation in conversations:
            code = self._converse(conversation, self._kept.begin())
            if code in (ExitCode.ENGINE_DIED, ExitCode.INTERRUPTED):
                return code
            worst = max(worst, code)
        return worst

    def _converse(self, conversation: Conversation, chat: KeptChat) -> ExitCode:
        history = list(self._system)
        worst = ExitCode.DONE
        documents = self._documents
        for turn in conversation.turns:
            question = ChatMessage(Role.USER, join_documents(documents, turn))
            reply = chat.ask(question.content, turn, self._plan)
            try:
                answer = self._ask((*history, question), chat.id, reply)
            except EngineError as error:
                reply.fail(error)
                self._printer.failed(error)
                code = exit_code_of(error)
                if isinstance(error, EngineUnavailable):
                    return code
                worst = max(worst, code)
                continue  # the question is dropped: its answer is not there to go on from
            if self._session.was_interrupted:
                return ExitCode.INTERRUPTED
            documents = ()
            history += [question, ChatMessage(Role.ASSISTANT, answer.finished.text, answer.finished.thinking)]
        return worst

    def _ask(self, messages: tuple[ChatMessage, ...], chat_id: str, reply: KeptReply) -> Answer:
        self._printer.begin()
        plan, power = self._plan, self._meter.read()
        asked = self._session.ask(
            messages,
            plan.sampling,
            chat_id=chat_id,
            adapters=plan.adapters,
            options=plan.prompt_options,
            speculative=plan.drafting.params(plan.sampling),
        )
        for item in asked:
            reply.take(item)
            match item:
                case TurnsDropped():
                    self._printer.dropped(item)
                case PrefillProgress():
                    self._printer.prefill(item)
                case Delta():
                    self._printer.delta(item)
                case Answer():
                    answer = self._measured(item, self._meter.joules_since(power))
                    reply.finish(answer.finished)
                    self._printer.finished(answer)
                    line = drafting_line(answer.finished.speculative, is_asked=not self._is_draft_refused)
                    if line and plan.is_drafting_asked and not self._as_json:
                        print(f"fireside: {safe_text(line)}", file=sys.stderr)
                    return answer
        raise RuntimeError("a request ended without an answer")

    def _measured(self, answer: Answer, joules: float | None) -> Answer:
        model, finished = self._session.model, answer.finished
        if model is None:
            return answer
        metrics = completed(finished.metrics, model, self._settings, joules=joules)
        return dataclasses.replace(answer, finished=msgspec.structs.replace(finished, metrics=metrics))


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

    def dropped(self, dropped: TurnsDropped) -> None:
        print_event("turns_dropped", num_messages=dropped.num_messages, num_tokens=dropped.num_tokens)

    def delta(self, delta: Delta) -> None:
        more: dict[str, object] = {"thinking": delta.thinking} if delta.thinking else {}
        if delta.was_thinking:
            more["was_thinking"] = True
        print_event("delta", text=delta.text, **more)

    def finished(self, answer: Answer) -> None:
        finished = answer.finished
        print_event(
            "finished",
            text=finished.text,
            thinking=finished.thinking,
            finish_reason=finished.finish_reason.value,
            stop_string=finished.stop_string,
            metrics=measures_of(finished),
            client_ttft_s=answer.client_ttft_s,
        )

    def failed(self, error: EngineError) -> None:
        print_failed(error)
        show_error(error)


class _PlainPrinter:
    """Prints the text of the replies as it comes; in a terminal what was thought before too, dimmed."""

    def __init__(self) -> None:
        self._is_terminal = is_terminal(sys.stdout)
        self._num_requests = 0
        self._last = ""
        self._can_think = False
        self._reply = ReplyPrinter(is_terminal=self._is_terminal)

    def loaded(self, model: ModelDescription, label: str) -> None:
        self._can_think = model.can_think
        for notice in model.notices:
            print(f"fireside: {notice}", file=sys.stderr)

    def begin(self) -> None:
        if self._num_requests:
            print()
        self._num_requests += 1
        self._last = ""
        self._reply = ReplyPrinter(is_terminal=self._is_terminal, can_think=self._can_think)

    def dropped(self, dropped: TurnsDropped) -> None:
        print(f"fireside: {dropped_sentence(dropped)}", file=sys.stderr)

    def prefill(self, progress: PrefillProgress) -> None:
        """Progress is not part of the reply."""

    def delta(self, delta: Delta) -> None:
        self._print(self._reply.delta(delta))

    def finished(self, answer: Answer) -> None:
        self._print(self._reply.end())
        self._end_line()
        if not self._is_terminal and answer.finished.thinking and is_blank(answer.finished.text):
            print(f"fireside: {ONLY_THOUGHT}", file=sys.stderr)
        if answer.finished.metrics.cache_source is CacheSource.RESPONSE:
            print(f"fireside: {FROM_CACHE}", file=sys.stderr)
        if answer.finished.finish_reason is FinishReason.CONTEXT_FULL:
            print(f"fireside: {CONTEXT_FULL}", file=sys.stderr)

    def failed(self, error: EngineError) -> None:
        self._end_line()
        show_error(error)

    def _print(self, text: str) -> None:
        print(text, end="", flush=True)
        self._last = text or self._last

    def _end_line(self) -> None:
        if self._last and not self._last.endswith("\n"):
            print(flush=True)
