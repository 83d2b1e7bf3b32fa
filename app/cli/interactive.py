"""The chat in a terminal: history, several lines, a reply that Ctrl-C stops, and the numbers of each reply."""

import dataclasses
from collections.abc import Callable

import msgspec
from prompt_toolkit.formatted_text import FormattedText

from app.adapter_files import open_adapter_files
from app.cli.adapter_commands import obey_lora
from app.cli.attached import prepare, prepared_sentence, read_documents
from app.cli.cache import obey_cache, show_refusal
from app.cli.chat_options import parse_setting, setting_text
from app.cli.chat_plan import ChatPlan, note_chat_format, remember_model
from app.cli.draft_commands import change_draft, draft_sentences, drafting_line, obey_draft, show_refused
from app.cli.kept_chats import KeptChats, KeptReply
from app.cli.line_editor import LineEditor
from app.cli.live_display import COMMANDS_HELP, KEYS_HELP, set_title, show_live
from app.cli.outcome import CONTEXT_FULL, ExitCode, dropped_sentence, show_error
from app.cli.reply_numbers import number_lines, summary_of, wrapped_numbers
from app.cli.reply_printer import ReplyPrinter
from app.cli.session import Answer, ChatSession
from app.cli.streams import without_echo
from app.cli.terminal_text import one_line, safe_text, wrapped
from app.document_text import Document, join_documents, names_of
from app.errors import AppError
from app.known_models import KnownModels
from app.model_choice import choose_model
from app.paths import Paths
from app.settings import SettingsStore
from app.speculation import DraftChoice, draft_choice
from engine import (
    ChatMessage,
    Delta,
    EngineError,
    Finished,
    FinishReason,
    PrefillProgress,
    PromptMode,
    Role,
    SamplingParams,
    TurnsDropped,
    is_blank,
    param_infos,
)
from models import ModelsError

_FAREWELL_HINT = "Press Ctrl-C again, or Ctrl-D, to leave."


class InteractiveChat:
    """One chat after another with one model at a time.

    Args:
        session: not started yet.
        plan: what to begin with.
        documents: stand before the first message.
        prepares: whether they are read at once.
        kept: where the chats go.
        read_line: stands in for the prompt, for tests; raises EOFError and KeyboardInterrupt as it does.
    """

    def __init__(
        self,
        session: ChatSession,
        plan: ChatPlan,
        paths: Paths,
        store: SettingsStore,
        *,
        documents: tuple[Document, ...] = (),
        prepares: bool = False,
        kept: KeptChats | None = None,
        read_line: Callable[[], str] | None = None,
    ) -> None:
        self._session = session
        self._plan = plan
        self._store = store
        self._paths = paths
        self._known = KnownModels.in_paths(paths)
        self._adapter_files = open_adapter_files(paths)
        self._read_line = read_line or LineEditor(paths, self._toolbar).read
        self._history: list[ChatMessage] = []
        self._last: Answer | None = None
        self._has_draft = False
        self._kept = kept or KeptChats()
        self._chat = self._kept.begin()
        self._documents = documents
        self._prepares = prepares
        self._commands: dict[str, Callable[[str], None]] = {
            "/help": lambda argument: print(wrapped(COMMANDS_HELP, indent=" " * 18) + wrapped(KEYS_HELP)),
            "/new": self._new,
            "/system": self._system,
            "/set": self._set,
            "/attach": self._attach,
            "/prepare": self._prepare,
            "/cache": lambda argument: obey_cache(argument, self._session),
            "/lora": self._lora,
            "/draft": self._draft,
            "/model": self._model,
            "/again": self._again,
            "/continue": self._continue,
            "/prompt": self._show_prompt,
            "/stats": self._stats,
        }

    def run(self) -> ExitCode:
        """Chat until the user leaves.

        Raises:
            EngineError: the first model could not be loaded.
        """
        try:
            self._load()
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
        self._new("")
        if self._prepares:
            self._obey("/prepare")
        print("Type a message, or /help.")
        num_ctrl_c = 0
        while True:
            show_refusal(self._session.events)
            try:
                line = self._read_line()
            except EOFError:
                return ExitCode.DONE
            except KeyboardInterrupt:
                num_ctrl_c += 1
                if num_ctrl_c > 1:
                    return ExitCode.INTERRUPTED
                print(_FAREWELL_HINT)
                continue
            num_ctrl_c = 0
            if is_blank(line):
                continue
            if line.strip() in ("/quit", "/exit"):
                return ExitCode.DONE
            self._obey(line)

    def _obey(self, line: str) -> None:
        """Run a command or ask a question; what fails is shown, and the chat goes on."""
        try:
            name, _, argument = line.strip().partition(" ")
            if name in self._commands:
                self._commands[name](argument.strip())
            elif name.startswith("/") and "/" not in name[1:] and "\n" not in line:
                print(f"There is no command {name}; /help lists them.")
            else:
                self._ask(line)
        except (AppError, ModelsError, EngineError) as error:
            show_error(error)
        except KeyboardInterrupt:
            print()

    # --- commands ---

    def _new(self, argument: str) -> None:
        self._chat = self._kept.begin()
        self._history = [ChatMessage(Role.SYSTEM, self._plan.system)] if self._plan.system else []
        if self._last is not None:
            print("A new chat.")
        self._last = None

    def _system(self, argument: str) -> None:
        self._plan = dataclasses.replace(self._plan, system=argument or None)
        self._last = None
        self._new("")
        print("A new chat with this system prompt." if argument else "A new chat without a system prompt.")

    def _set(self, argument: str) -> None:
        if not argument:
            for name in param_infos(SamplingParams):
                print(f"  {name} = {setting_text(self._plan.sampling, name)}")
            return
        name, value = parse_setting(argument)
        fields = {field: getattr(self._plan.sampling, field) for field in SamplingParams.__struct_fields__}
        self._plan = dataclasses.replace(self._plan, sampling=SamplingParams(**(fields | {name: value})))
        print(f"  {name} = {setting_text(self._plan.sampling, name)}")

    def _attach(self, argument: str) -> None:
        added = read_documents([argument.strip("'\"")]) if argument else ()
        self._documents = (*self._documents, *added) if argument else ()
        names = safe_text(names_of(self._documents))
        print(wrapped(f"Before the next message: {names}." if names else "Nothing is attached."))

    def _prepare(self, argument: str) -> None:
        self._load_if_needed()
        with self._session.interrupted_by_ctrl_c(), without_echo():
            prepared = prepare(self._session, self._plan, self._history, self._documents, as_json=False)
        if prepared is None:
            raise KeyboardInterrupt
        print(wrapped(prepared_sentence(prepared)))

    def _lora(self, argument: str) -> None:
        self._plan = obey_lora(argument, self._plan, self._adapter_files)

    def _draft(self, argument: str) -> None:
        before = self._plan.drafting
        drafting = obey_draft(argument, before, self._plan.path, self._paths, params=self._plan.params)
        self._plan = dataclasses.replace(self._plan, drafting=drafting, is_drafting_asked=True)
        is_missing = bool(argument) and drafting.wanted_path is not None and not self._has_draft
        if self._session.model is not None and (is_missing or drafting.wanted_path != before.wanted_path):
            self._load_draft()

    def _model(self, argument: str) -> None:
        if argument:
            choice = choose_model(argument.strip("'\""), self._store.load()[0], self._paths)
            self._plan = dataclasses.replace(
                self._plan,
                path=str(choice.path),
                label=choice.label,
                last_model=choice.last_model,
                fingerprint=choice.fingerprint,
                template_hash=choice.template_hash,
                chat_format=self._store.load()[0].chat_formats.get(choice.last_model),
                drafting=self._drafting_of(choice.last_model),
            )
        self._load()

    def _drafting_of(self, model: str) -> DraftChoice:
        """Return what drafts for another model: as the window keeps it, but for what was said here."""
        said, kept = self._plan.drafting, draft_choice(self._store.load()[0], model)
        mode = said.mode if self._plan.is_drafting_asked and said.wants_no_model else kept.mode
        return dataclasses.replace(kept, mode=mode, draft_max=said.draft_max, strict=said.strict)

    def _again(self, argument: str) -> None:
        if not self._history or self._history[-1].role is not Role.ASSISTANT:
            print("There is no reply to ask for again.")
            return
        self._load_if_needed()
        finished = self._reply(self._chat.ask_again(self._plan), tuple(self._history[:-1]), is_fresh=True)
        if finished.finish_reason is FinishReason.ABORT and not finished.text and not finished.thinking:
            return  # stopped before it said anything: the reply that was there stays
        self._history[-1] = ChatMessage(Role.ASSISTANT, finished.text, finished.thinking)

    def _continue(self, argument: str) -> None:
        if not self._history or self._history[-1].role is not Role.ASSISTANT:
            print("There is no reply to go on with.")
            return
        self._load_if_needed()
        finished = self._reply(self._chat.go_on(self._plan), tuple(self._history), PromptMode.CONTINUE)
        if finished.finish_reason is FinishReason.STOP and not finished.text and not finished.thinking:
            print("The model has nothing to add.")
        half = self._history[-1]
        # New thinking belongs to what was thought before, unless the answer had begun.
        thinking = half.thinking if half.content else half.thinking + finished.thinking
        self._history[-1] = ChatMessage(Role.ASSISTANT, half.content + finished.text, thinking)

    def _show_prompt(self, argument: str) -> None:
        if not any(message.role is not Role.SYSTEM for message in self._history):
            print("There is no message yet.")
            return
        if self._session.model is None:
            self._load()
        prompt = safe_text(self._session.render(tuple(self._history), self._plan.prompt_options))
        print(prompt.removesuffix("\n"))

    def _stats(self, argument: str) -> None:
        print("There is no reply yet." if self._last is None else "\n".join(number_lines(self._last.finished)))

    # --- model and replies ---

    def _load(self) -> None:
        self._session.forget_the_past()
        label = safe_text(self._plan.label)
        with self._session.interrupted_by_ctrl_c(), without_echo():
            for share in self._session.load(self._plan.path, self._plan.params, self._known):
                print(f"\r{one_line(f'Loading {share:4.0%}: {label}')}", end="", flush=True)
        model = self._session.model
        assert model is not None
        loaded = f"{label} is loaded ({model.type_name}, context {model.n_ctx:,}, {model.n_threads} threads)."
        print(f"\r\x1b[K{wrapped(loaded)}")
        self._plan, notice = note_chat_format(self._store, self._plan, model)
        for sentence in (*model.notices, notice):
            if sentence:
                print(wrapped(safe_text(sentence)))
        remember_model(self._store, self._plan.last_model)
        self._has_draft = False
        self._load_draft()

    def _load_draft(self) -> None:
        """Load the draft model that is wanted; one that is not used any more gives its memory back."""
        had_draft, self._has_draft = self._has_draft, False
        if self._plan.drafting.wanted_path is not None:
            print("\rLoading the draft model ...", end="", flush=True)
        with self._session.interrupted_by_ctrl_c(), without_echo():
            plan = self._plan
            outcome = change_draft(self._session, plan.path, plan.drafting, plan.params, has_one=had_draft)
        self._has_draft = outcome is not None and outcome.draft is not None
        if outcome is not None:
            print("\r\x1b[K", end="", flush=True)
            show_refused(outcome)
            for sentence in draft_sentences(outcome):
                print(wrapped(safe_text(sentence)))

    def _ask(self, text: str) -> None:
        question = ChatMessage(Role.USER, join_documents(self._documents, text))
        self._load_if_needed()
        finished = self._reply(self._chat.ask(question.content, text, self._plan), (*self._history, question))
        self._documents = ()
        # A reply that was stopped is part of the chat: the user has read it.
        self._history += [question, ChatMessage(Role.ASSISTANT, finished.text, finished.thinking)]

    def _load_if_needed(self) -> None:
        self._session.forget_the_past()
        if self._session.model is None:  # the engine died, or a load was given up
            self._load()

    def _reply(
        self,
        kept: KeptReply,
        messages: tuple[ChatMessage, ...],
        mode: PromptMode = PromptMode.CHAT,
        *,
        is_fresh: bool = False,
    ) -> Finished:
        """Ask, and print and keep what comes."""
        printed = ""
        printer = ReplyPrinter(is_terminal=True)
        answer: Answer | None = None
        with self._session.interrupted_by_ctrl_c(), without_echo():
            try:
                for item in self._session.ask(
                    messages,
                    self._plan.sampling,
                    chat_id=self._chat.id,
                    adapters=self._plan.adapters,
                    options=msgspec.structs.replace(self._plan.prompt_options, mode=mode),
                    speculative=self._plan.drafting.params(self._plan.sampling),
                    is_fresh=is_fresh,
                ):
                    kept.take(item)
                    match item:
                        case TurnsDropped():
                            print(wrapped(dropped_sentence(item)))
                        case PrefillProgress():
                            self._show_prefill(item)
                        case Delta():
                            shown = printer.delta(item)
                            # The first text takes the place of what was shown of the prefill.
                            print(shown if printed else f"\r\x1b[K{shown}", end="", flush=True)
                            printed += shown
                            show_live(item)
                        case Answer():
                            answer = self._last = item
                            kept.finish(item.finished)
            except EngineError as error:
                kept.fail(error)
                raise
            finally:
                print(printer.end(), end="")
                print("" if printed else "\r\x1b[K", end="\n" if printed and not printed.endswith("\n") else "")
                set_title("Fireside")
        if answer is None:
            kept.give_up()
            raise KeyboardInterrupt
        if answer.finished.finish_reason is FinishReason.CONTEXT_FULL:
            print(wrapped(CONTEXT_FULL))
        is_refused = self._plan.drafting.wanted_path is not None and not self._has_draft  # which was said
        is_asked = self._plan.is_drafting_asked and not is_refused
        drafted = drafting_line(answer.finished.speculative, is_asked=is_asked)
        for line in filter(None, (wrapped_numbers(summary_of(answer.finished.metrics)), wrapped(safe_text(drafted)))):
            print(f"\x1b[2m{line}\x1b[0m", flush=True)
        return answer.finished

    def _show_prefill(self, progress: PrefillProgress) -> None:
        if progress.num_done_tokens < progress.num_total_tokens:
            shown = f"Reading the prompt: {progress.num_done_tokens:,} of {progress.num_total_tokens:,} tokens"
            print(f"\r{one_line(shown)}", end="", flush=True)

    def _toolbar(self) -> FormattedText:
        parts = [self._plan.label]
        if self._session.model is None:
            parts.append("not loaded")
        elif self._last is not None:
            metrics = self._last.finished.metrics
            used = metrics.num_prompt_tokens + metrics.num_generated_tokens
            parts.append(f"{used:,} of {self._session.model.n_ctx:,} tokens of context")
        return FormattedText([("class:bottom-toolbar", " " + "  ·  ".join(parts))])
