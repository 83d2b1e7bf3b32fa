"""Building a window: every part made once and given what it works with; nothing else makes parts."""

import dataclasses
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING

from app.adapter_files import AdapterFiles
from app.cache_limits import cache_params
from app.desktop.adapter_presenter import AdapterPresenter
from app.desktop.bridge.background import Background, SerialBackground
from app.desktop.bridge.engine_bridge import EngineBridge
from app.desktop.bridge.model_jobs import ModelJobs
from app.desktop.bridge.worker_memory import WorkerMemory
from app.desktop.chat_keeping import ChatKeeping
from app.desktop.chat_presenter import ChatPresenter
from app.desktop.code_saving import CodeSaving
from app.desktop.compare_opening import ComparePlace
from app.desktop.document_presenter import DocumentPresenter
from app.desktop.draft_presenter import DraftPresenter, draft_choice_of, files_beside_model
from app.desktop.find_presenter import FindPresenter
from app.desktop.inspector_presenter import InspectorParts, InspectorPresenter
from app.desktop.list_presenter import ListPresenter
from app.desktop.models_presenter import ModelsPresenter
from app.desktop.models_shelf import MakeShelf
from app.desktop.rendering.formula_images import FormulaImages
from app.desktop.rendering.highlighting import CodeLexer
from app.desktop.rendering.lazy_parser import LazyParser
from app.desktop.session.chat_format_choice import ChatFormatChoice
from app.desktop.session.chat_recorder import ChatRecorder
from app.desktop.session.chat_settings import ChatSettings
from app.desktop.session.chats import Chats
from app.desktop.session.conversation import Conversation
from app.desktop.session.kept_prompts import KeptPrompts
from app.desktop.session.memory_lessons import MemoryLessons
from app.desktop.session.model_session import ChooseModel, ModelSession, Starter
from app.desktop.session.reply_costs import ReplyCosts
from app.desktop.session.surroundings import Surroundings
from app.desktop.session.token_counts import TokenCounts
from app.desktop.session.user_settings import UserSettings
from app.desktop.theme.theme import Theme
from app.desktop.widgets.adapter_panel import AdapterPanel
from app.desktop.widgets.chat_view import ChatView
from app.desktop.widgets.composer import Composer
from app.desktop.widgets.crash_card import CrashCard
from app.desktop.widgets.draft_panel import DraftPanel
from app.desktop.widgets.find_bar import FindBar
from app.desktop.widgets.inspector import Inspector
from app.desktop.widgets.load_panel import LoadPanel
from app.desktop.widgets.main_window import MainWindow
from app.desktop.widgets.model_picker import ModelPicker
from app.desktop.widgets.notices import NoticeArea
from app.desktop.widgets.readouts import Readouts
from app.desktop.widgets.sampling_panel import SamplingPanel
from app.desktop.widgets.sidebar import Sidebar
from app.desktop.widgets.system_prompt import SystemPromptEdit
from app.desktop.widgets.top_bar import TopBar
from app.desktop.widgets.trash_page import TrashPage
from app.desktop.window_actions import WindowActions
from app.desktop.window_frame import WindowFrame
from app.known_models import KnownModels
from app.memory_record import MemoryRecord
from app.sampling_layers import resolve
from app.settings import Settings
from app.speculation import draft_choice
from engine import EngineClient, SamplingParams

if TYPE_CHECKING:
    from app.desktop.compare_source import CompareSource
    from app.draft_models import DraftFiles

# The window is gone at once; the engine gets this long before it is ended by force.
_CLOSE_TIMEOUT_S = 1.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowParts:
    """The parts of one window, wired."""

    theme: Theme
    background: Background
    serial: SerialBackground
    bridge: EngineBridge
    jobs: ModelJobs
    settings: UserSettings
    model: ModelSession
    chats: Chats
    keeping: ChatKeeping
    kept: KeptPrompts
    picker: ModelPicker
    sidebar: Sidebar
    trash: TrashPage
    find_bar: FindBar
    crash_card: CrashCard
    readouts: Readouts
    sampling: SamplingPanel
    adapters: AdapterPresenter
    drafts: DraftPresenter
    load_panel: LoadPanel
    system_prompt: SystemPromptEdit
    window: MainWindow
    presenter: ChatPresenter
    lists: ListPresenter
    models: ModelsPresenter
    compare: ComparePlace
    find: FindPresenter
    frame: WindowFrame
    saving: CodeSaving
    actions: WindowActions

    @property
    def conversation(self) -> Conversation:
        """The chat that is shown."""
        return self.chats.current

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """Take the window off the screen, then end what runs behind it; chats are written last."""
        self.window.hide()
        self.system_prompt.flush()
        self.presenter.keep_place()
        self.presenter.keep_unsent()
        self.frame.save()
        self.chats.let_all_go()
        self.background.close()
        self.compare.close()
        self.adapters.close()
        self.drafts.close()
        self.serial.close()
        self.jobs.close()
        self.bridge.close(timeout_s)
        self.keeping.close()


def build_window(
    theme: Theme,
    client: EngineClient,
    *,
    choose: ChooseModel,
    starter: Callable[[], Starter],
    settings: Settings,
    save: Callable[[str, object], None],
    known: KnownModels,
    shelf: MakeShelf,
    memory: MemoryRecord | None = None,
    settings_file: str = "",
    cache_dir: str = "",
    adapter_files: AdapterFiles | None = None,
    draft_files: "Callable[[], DraftFiles] | None" = None,
    open_link: Callable[[str], object] | None = None,
    comparing: "Callable[[UserSettings], CompareSource] | None" = None,
) -> WindowParts:
    """Start the engine behind `client` and build a window for it, not yet shown.

    Args:
        choose: finds and checks a model file; runs beside the window's thread.
        starter: tells of the model that comes with the program, when it is first needed.
        save: keeps one setting.
        known: which model files were loaded before.
        shelf: makes what knows the model files of this computer, when it is first needed.
        memory: learns what models take.
        settings_file: where the settings are kept, to be shown.
        cache_dir: where the engine keeps what it has read of chats; empty is nowhere.
        adapter_files: finds adapters; None looks beside the model alone.
        draft_files: makes what looks for draft models, when it is first needed; None looks beside the model alone.
        open_link: opens a target that the user agreed to; None hands it to the desktop.
        comparing: makes what the Compare page is fed from, when it is first wanted; None for a window without it.
    """
    bridge = EngineBridge(client)
    bridge.start()
    background, serial = Background(bridge), SerialBackground(bridge)
    user = UserSettings(settings, save)
    model = ModelSession(
        bridge,
        background,
        choose,
        bridge,
        known=known,
        params=user.load_params,
        cache=lambda: cache_params(user.now, cache_dir),
        drafts=lambda name: draft_choice(user.now, name).is_on,
    )
    if memory is not None:
        MemoryLessons(bridge, model, background, memory)
    formats = ChatFormatChoice(model, settings.chat_formats, save)

    def sampling_of(chat: ChatSettings) -> SamplingParams:
        name = chat.model or (model.chosen.last_model if model.chosen is not None else "")
        return resolve(user.now.sampling, user.model_sampling(name), chat.sampling).params

    around = Surroundings(
        bridge=bridge,
        model=model,
        recorder=ChatRecorder(bridge),
        sampling=sampling_of,
        chat_format=lambda: formats.chosen,
        costs=ReplyCosts(user, model),
        speculative=lambda sampling: draft_choice_of(user, model).params(sampling),
    )
    chats = Chats(around, serial)
    kept = KeptPrompts(bridge, model=model, chats=chats, settings=user, folder=cache_dir, background=serial)
    counts = TokenCounts(bridge, model)
    inspector = InspectorParts(
        readouts=Readouts(theme),
        sampling=SamplingPanel(theme),
        load_panel=LoadPanel(theme),
        system_prompt=SystemPromptEdit(theme),
    )
    adapter_panel, draft_panel = AdapterPanel(theme), DraftPanel(theme)
    picker = ModelPicker(theme, starter, settings.last_model)
    sidebar, find_bar = Sidebar(theme), FindBar(theme)
    window = MainWindow(
        theme,
        top_bar=TopBar(theme),
        chat_view=ChatView(theme, LazyParser(), CodeLexer(background), formulas=FormulaImages(background)),
        notices=NoticeArea(theme),
        composer=Composer(theme, picker),
        inspector=Inspector(
            theme,
            inspector.readouts,
            inspector.sampling,
            inspector.load_panel,
            inspector.system_prompt,
            adapters=adapter_panel,
            drafting=draft_panel,
        ),
        sidebar=sidebar,
        find_bar=find_bar,
    )
    trash = TrashPage(theme, window)
    trash.hide()  # until it is shown as a page
    find = FindPresenter(window, chats, find_bar)
    presenter = ChatPresenter(
        theme,
        window,
        chats=chats,
        readouts=inspector.readouts,
        counts=counts,
        find=find,
        model_to_load=lambda chat: _model_to_load(chat, model, starter),
        pin_seed=inspector.sampling.pin_seed,
        show_notice=lambda notice: actions.show_notice(notice),
    )
    lists = ListPresenter(
        window,
        chats,
        sidebar=sidebar,
        trash=trash,
        background=serial,
        retention_days=lambda: user.now.retention_days,
        show_notice=lambda notice: actions.show_notice(notice),
        forget=kept.forget,
    )
    InspectorPresenter(
        window,
        inspector,
        chats=chats,
        model=model,
        bridge=bridge,
        settings=user,
        counts=counts,
        memory=WorkerMemory(lambda: bridge.worker_pid, background, bridge),
    )
    adapters = AdapterPresenter(
        window,
        adapter_panel,
        chats=chats,
        model=model,
        files=adapter_files or AdapterFiles(None),
        settings=user,
        background=SerialBackground(bridge),
        show_notice=lambda notice: actions.show_notice(notice),
    )
    drafts = DraftPresenter(
        window,
        draft_panel,
        model=model,
        bridge=bridge,
        files=draft_files or files_beside_model,
        settings=user,
        background=SerialBackground(bridge),
        show_notice=lambda notice: actions.show_notice(notice),
    )
    DocumentPresenter(
        window,
        chats=chats,
        bridge=bridge,
        model=model,
        background=background,
        show_notice=lambda notice: actions.show_notice(notice),
    )
    jobs = ModelJobs(bridge)
    models = ModelsPresenter(
        theme,
        window,
        make_shelf=lambda: shelf(user, bridge),
        jobs=jobs,
        bridge=bridge,
        model=model,
        settings=user,
        starter_name=lambda: starter().name,
        choose_model=lambda wanted: actions.choose_model(wanted),
        show_notice=lambda notice: actions.show_notice(notice),
    )
    compare = ComparePlace(
        theme,
        window,
        make_source=None if comparing is None else lambda: comparing(user),
        parser=LazyParser(),
        lexer=CodeLexer(background),
        formulas=FormulaImages(background),
        chats=chats,
        model=model,
        show_notice=lambda notice: actions.show_notice(notice),
        ask_about_link=lambda target: actions.ask_about_link(target),
        save_code=lambda code, name: saving.ask(code, name),
    )
    crash_card = CrashCard(theme, window)
    window.notices.add_card(crash_card)
    frame = WindowFrame(theme, window, user, chats)
    actions = WindowActions(
        theme,
        window,
        picker=picker,
        readouts=inspector.readouts,
        model=model,
        chats=chats,
        presenter=presenter,
        lists=lists,
        find=find,
        settings_file=settings_file,
        crash_card=crash_card,
        formats=formats,
        starter=starter,
        settings=user,
        kept=kept,
        show_models=models.show,
        toggle_compare=compare.toggle,
        open_link=open_link,
    )
    saving = CodeSaving(window, background, actions.show_notice)
    window.chat_view.save_requested.connect(saving.ask)
    sidebar.settings_requested.connect(actions.show_settings)
    sidebar.new_chat_requested.connect(actions.new_chat)
    sidebar.hit_opened.connect(lambda chat_id, node_id, text: _open_hit(chats, find, chat_id, node_id, text))
    keeping = ChatKeeping(chats, background, actions.show_notice, window.notices.dismiss)
    keeping.opened.connect(frame.open_last_chat)
    keeping.opened.connect(kept.drop_purged)
    trash.purge_requested.connect(lambda _: kept.drop_purged())  # after the lists have had it purged
    keeping.unkept.connect(sidebar.show_problem)
    return WindowParts(
        theme=theme,
        background=background,
        serial=serial,
        bridge=bridge,
        jobs=jobs,
        settings=user,
        model=model,
        chats=chats,
        keeping=keeping,
        kept=kept,
        picker=picker,
        sidebar=sidebar,
        trash=trash,
        find_bar=find_bar,
        crash_card=crash_card,
        readouts=inspector.readouts,
        sampling=inspector.sampling,
        adapters=adapters,
        drafts=drafts,
        load_panel=inspector.load_panel,
        system_prompt=inspector.system_prompt,
        window=window,
        presenter=presenter,
        lists=lists,
        models=models,
        compare=compare,
        find=find,
        frame=frame,
        saving=saving,
        actions=actions,
    )


def _model_to_load(chat: Conversation, model: ModelSession, starter: Callable[[], Starter]) -> str:
    """Return what a person calls the model that the next message of a chat loads first; empty for none."""
    name = chat.settings.model
    if not name or chat.has_model or model.is_busy:
        return ""
    return starter().label if name == starter().name else PurePath(name).stem


def _open_hit(chats: Chats, find: FindPresenter, chat_id: str, node_id: str | None, text: str) -> None:
    """Show where a search found a text, on whatever branch that is."""

    def show() -> None:
        if node_id is not None:
            find.show_hit(node_id, text)

    chats.open(chat_id, node_id=node_id, then=show)
