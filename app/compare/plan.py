"""What a comparison is to do: columns, the settings that make them comparable, and the order of the replies."""

import datetime
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple, assert_never

import msgspec

from app import __version__
from app.bench.machine_state import machine_state
from app.bench.record import machine_record
from app.compare.column_adapters import adapter_fingerprints
from app.compare.results import MAX_COLUMNS, MAX_PROMPTS, MAX_REPEATS, Cell, Column, Comparison, Mode, PromptItem
from app.errors import AppError, UsageError
from app.model_choice import ModelChoice
from app.store import new_id
from engine import Adapter, ChatMessage, ModelParams, Role, SamplingParams
from models import ModelsError, vocabulary_hash

MAX_TOKENS = 128
MAX_SAMPLES = 64
MAX_REPLIES = 200_000
_LEAST_CONTEXT, _CONTEXT_STEP = 2048, 256
_FRAME_TOKENS = 256  # of a chat format, with a system prompt that a template adds by itself
_BYTES_PER_TOKEN = 2  # no common text has fewer


class Place(NamedTuple):
    """Where a reply stands in a comparison: ids of column and prompt, and the repeat or the number of the sample."""

    column: str
    prompt: str
    repeat: int


class Stage(NamedTuple):
    """What is done with the same models loaded.

    Attributes:
        rounds: one after the other; the replies of one are made at once.
    """

    columns: tuple[str, ...]
    rounds: tuple[tuple[Place, ...], ...]


def fair_sampling(max_tokens: int = MAX_TOKENS, seed: int = 0) -> SamplingParams:
    """Return how replies are sampled that are to be compared: the likeliest token, and the same text each time."""
    return SamplingParams(temperature=0, seed=seed, max_tokens=max_tokens, reproducible=True)


def context_for(prompts: Sequence[PromptItem], max_tokens: int, *, num_turns: int = 1, num_at_once: int = 1) -> int:
    """Return a context for all columns that holds every prompt with its reply: else memory could not be compared.

    No model is there to count tokens yet, so it is counted generously by bytes.

    Args:
        num_turns: replies that a chat may get.
        num_at_once: chats that are held together.
    """
    most = max((_num_bytes(prompt) for prompt in prompts), default=0)
    wanted = num_at_once * (most // _BYTES_PER_TOKEN + num_turns * (max_tokens + _FRAME_TOKENS))
    return max(_LEAST_CONTEXT, -(-wanted // _CONTEXT_STEP) * _CONTEXT_STEP)


def column_of(
    choice: ModelChoice, *, params: ModelParams, sampling: SamplingParams, adapters: tuple[Adapter, ...] = ()
) -> Column:
    """Return the column of a model file; `new_comparison` gives it its id.

    Raises:
        AppError, ModelsError: an adapter cannot be used with the model.
    """
    return Column(
        id="",
        label=choice.label,
        path=str(choice.path),
        fingerprint=choice.fingerprint,
        type_name=choice.info.type_name,
        params=params,
        sampling=sampling,
        adapters=adapters,
        adapter_fingerprints=adapter_fingerprints(adapters, choice.path),
        template_hash=choice.template_hash,
        vocabulary_hash=_vocabulary_hash(choice),
        values={"file_bytes": float(choice.info.file_bytes)},
    )


def failed_column(
    name: str,
    error: AppError | ModelsError,
    *,
    params: ModelParams,
    sampling: SamplingParams,
    adapters: tuple[Adapter, ...] = (),
) -> Column:
    """Return the column of a model that cannot be used, which says why."""
    label = name.replace("\\", "/").rpartition("/")[2].removesuffix(".gguf") or name
    return Column(
        id="",
        label=label,
        path=name,
        params=params,
        sampling=sampling,
        adapters=adapters,
        error=error.message,
        hint=error.hint,
    )


def new_comparison(
    columns: Sequence[Column],
    prompts: Sequence[PromptItem],
    *,
    mode: Mode = Mode.FAIR,
    repeats: int = 1,
    prompts_name: str = "",
    watts: float = 0.0,
    reference: int | None = None,
) -> Comparison:
    """Return a comparison of which nothing is done yet.

    Args:
        columns: what to compare; a label that is there twice gets a number.
        repeats: how often each prompt goes to each column; of samples, how many there are.
        watts: what the user says this computer draws; 0 is unknown.
        reference: the place of the column whose replies the others are held against; None takes the largest file. One
            that cannot be used is replaced by that, which is said.

    Raises:
        UsageError: there is nothing to compare, or too much of it.
    """
    _check(columns, prompts, mode, repeats)
    named = tuple(
        msgspec.structs.replace(column, id=f"c{number}", label=label)
        for number, (column, label) in enumerate(zip(columns, _labels(columns), strict=True), 1)
    )
    state = machine_state()
    held_against, told = _reference(named, reference)
    return Comparison(
        id=new_id(),
        created_at=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        program=__version__,
        mode=mode,
        columns=named,
        prompts=tuple(prompts),
        repeats=repeats,
        machine=machine_record(state, state, watts=watts),
        reference=held_against,
        prompts_name=prompts_name,
        notes=(*told, *_twice(named)),
    )


def stages(comparison: Comparison) -> Iterator[Stage]:
    """Yield all there is to do, in its order.

    Fair: a stage for each repeat and column, so that a model is loaded once a repeat, alone; the first column of a
    repeat is the second of the one before. A race and samples: one stage with everything loaded.
    """
    columns = tuple(column.id for column in comparison.columns)
    prompts = [prompt.id for prompt in comparison.prompts]
    repeats = range(comparison.repeats)
    match comparison.mode:
        case Mode.FAIR:
            for repeat in repeats:
                for column in _rotated(columns, repeat):
                    yield Stage((column,), tuple((Place(column, prompt, repeat),) for prompt in prompts))
        case Mode.RACE:
            yield Stage(
                columns,
                tuple(
                    tuple(Place(column, prompt, repeat) for column in columns)
                    for repeat in repeats
                    for prompt in prompts
                ),
            )
        case Mode.SAMPLES:
            yield Stage(
                columns,
                tuple(
                    tuple(Place(column, prompt, number) for number in repeats)
                    for column in columns
                    for prompt in prompts
                ),
            )
        case _:
            assert_never(comparison.mode)


def left_of(stage: Stage, done: Set[Place], failed: Set[str]) -> Stage | None:
    """Return what is left of a stage; None where that is nothing."""
    rounds = [
        tuple(place for place in places if place not in done and place.column not in failed) for places in stage.rounds
    ]
    rounds = [places for places in rounds if places]
    needed = {place.column for places in rounds for place in places}
    if not rounds:
        return None
    return Stage(tuple(column for column in stage.columns if column in needed), tuple(rounds))


def sampling_at(column: Column, place: Place, mode: Mode) -> SamplingParams:
    """Return how one reply is sampled: each sample has a seed of its own, and cannot be computed alone."""
    if mode is Mode.FAIR:
        return column.sampling
    shared = msgspec.structs.replace(column.sampling, reproducible=False)
    if mode is Mode.SAMPLES and shared.seed is not None:
        return msgspec.structs.replace(shared, seed=shared.seed + place.repeat)
    return shared


def chat_at(
    place: Place, prompts: Mapping[str, PromptItem], cells: Mapping[Place, Cell]
) -> tuple[ChatMessage, ...] | None:
    """Return what the model is asked; None where the reply it goes on from is missing."""
    prompt = prompts[place.prompt]
    if not prompt.follows:
        return prompt.messages
    before = cells.get(place._replace(prompt=prompt.follows))
    earlier = chat_at(place._replace(prompt=prompt.follows), prompts, cells)
    if before is None or before.error or earlier is None:
        return None
    return (*earlier, ChatMessage(Role.ASSISTANT, before.text, thinking=before.thinking), *prompt.messages)


def follow_up(comparison: Comparison, prompt_id: str, text: str) -> PromptItem:
    """Return the prompt that goes on after the replies to another one, each column with its own.

    Raises:
        UsageError: the text is blank, or there is no such prompt.
    """
    before = next((prompt for prompt in comparison.prompts if prompt.id == prompt_id), None)
    if before is None or not text.strip():
        raise UsageError("There is nothing to go on with.", "Name a prompt of the comparison, and write a message.")
    taken = {prompt.id for prompt in comparison.prompts}
    number = next(number for number in range(2, len(taken) + 3) if f"{prompt_id}+{number}" not in taken)
    messages = (ChatMessage(Role.USER, text),)
    return PromptItem(id=f"{prompt_id}+{number}", messages=messages, category=before.category, follows=prompt_id)


def _check(columns: Sequence[Column], prompts: Sequence[PromptItem], mode: Mode, repeats: int) -> None:
    if not columns:
        raise UsageError("No model is named.", "Name the models to compare, each a path, a name or `starter`.")
    if not prompts:
        raise UsageError("There is no prompt.", "Give one with --prompt TEXT, or a file of them with --prompts FILE.")
    if len(columns) > MAX_COLUMNS or len(prompts) > MAX_PROMPTS:
        raise UsageError(
            f"There are {len(columns)} models and {len(prompts):,} prompts.",
            f"Compare at most {MAX_COLUMNS} models on {MAX_PROMPTS:,} prompts.",
        )
    if len(columns) * len(prompts) * repeats > MAX_REPLIES:
        raise UsageError(
            f"That makes {len(columns) * len(prompts) * repeats:,} replies.", f"Ask for {MAX_REPLIES:,} at most."
        )
    most = MAX_SAMPLES if mode is Mode.SAMPLES else MAX_REPEATS
    if not 1 <= repeats <= most:
        flag = "--samples" if mode is Mode.SAMPLES else "--repeats"
        raise UsageError(f"{flag} is {repeats}.", f"Give a number from 1 to {most}.")
    if mode is Mode.SAMPLES and len(columns) > 1:
        raise UsageError("Samples are of one model.", "Name one model, or leave --samples out.")


def _labels(columns: Sequence[Column]) -> list[str]:
    labels: list[str] = []
    for column in columns:
        label, number = column.label, 1
        while label in labels:
            number += 1
            label = f"{column.label} ({number})"
        labels.append(label)
    return labels


def _reference(columns: Sequence[Column], wanted: int | None) -> tuple[str, tuple[str, ...]]:
    """Return the id of the reference, empty for none, and what is to be said of it."""
    usable = [column for column in columns if not column.error]
    if len(usable) < 2:
        return "", ()
    # The largest file stands for the model as it was before it was quantised.
    largest = max(usable, key=lambda column: column.values.get("file_bytes", 0.0))
    if wanted is None or not columns[wanted].error:
        return (largest if wanted is None else columns[wanted]).id, ()
    told = f"{columns[wanted].label} cannot be used: replies are held against those of {largest.label} instead."
    return largest.id, (told,)


def _twice(columns: Sequence[Column]) -> tuple[str, ...]:
    """Say which columns are the same file with the same settings: their difference is what chance makes."""
    first: dict[tuple[object, ...], Column] = {}
    notes = []
    for column in columns:
        key = (column.fingerprint, column.params, column.sampling, column.adapters)
        if column.fingerprint and key in first:
            notes.append(f"{column.label} is the same model as {first[key].label}: what differs between them is noise.")
        first.setdefault(key, column)
    return tuple(notes)


def _rotated(columns: tuple[str, ...], by: int) -> tuple[str, ...]:
    turn = by % len(columns)
    return columns[turn:] + columns[:turn]


def _num_bytes(prompt: PromptItem) -> int:
    return sum(len(message.content.encode()) + len(message.thinking.encode()) for message in prompt.messages)


def _vocabulary_hash(choice: ModelChoice) -> str:
    try:
        return vocabulary_hash(choice.info)
    except (OSError, ModelsError):  # it has just been read; whoever loads it will say what is wrong
        return ""
