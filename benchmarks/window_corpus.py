"""A chat as people have them, drawn from a fixed seed: paragraphs, lists, tables, long code, formulas, several scripts.

A token is taken to be four characters.
"""

import random
from collections.abc import Callable, Sequence

from app.desktop.session.turns import ReplyState, ReplyTurn, Turn, UserTurn
from engine import FinishReason, RequestMetrics

CHARS_PER_TOKEN = 4
LONG_REPLY_CHARS = 8_000 * CHARS_PER_TOKEN

_WORDS = """
river stone morning garden engine letter number yellow quiet answer window simple travel winter bridge market paper
measure little because between already however another through always morning under above during before while where
carry follow listen remember build choose compare explain reduce prefer return whether several enough almost perhaps
""".split()  # noqa: SIM905 (a list of 48 strings says no more)
_CJK = "日本語の文章は空白なしで続きます。中文的句子也没有空格。한국어 문장은 띄어쓰기가 있습니다。"
_RTL = ("هذه جملة قصيرة باللغة العربية تصف الطريق إلى البيت", "זהו משפט קצר בעברית על הדרך הביתה")
_EMOJI = "🙂 🚀 👩‍🔬 🏳️‍🌈 👍🏽 ⚠️ 🧮 🌍"
_FORMULAS = (r"E = mc^2", r"\sum_{k=1}^{n} k = \frac{n(n+1)}{2}", r"\int_0^1 x^2 \, dx", r"a_i \leq b_{i+1}")


def chat(num_messages: int, num_chars: int, *, num_long_replies: int = 0, seed: int = 1) -> list[Turn]:
    """Return the turns of a chat with about so many characters, some of its replies of 8,000 tokens."""
    drawn = random.Random(seed)
    num_pairs = num_messages // 2
    questions = [_sentence(drawn, drawn.randint(6, 40)) for _ in range(num_pairs)]
    left = num_chars - sum(map(len, questions)) - num_long_replies * LONG_REPLY_CHARS
    shares = drawn.choices((0.2, 0.5, 1.0, 1.5, 4.0, 12.0), (20, 30, 30, 15, 4, 1), k=num_pairs)
    long_ones = {num_pairs * (number + 1) // (num_long_replies + 1) for number in range(num_long_replies)}
    whole = sum(share for number, share in enumerate(shares) if number not in long_ones)
    turns: list[Turn] = []
    for number, question in enumerate(questions):
        length = LONG_REPLY_CHARS if number in long_ones else int(left * shares[number] / whole)
        turns.append(UserTurn(question))
        turns.append(_finished(reply(length, seed=seed * 100_000 + number)))
    return turns


def reply(num_chars: int, *, seed: int) -> str:
    """Return the Markdown of a reply with so many characters."""
    drawn = random.Random(seed)
    blocks: list[str] = []
    length = 0
    while length < num_chars:
        kinds, weights = zip(*_KINDS, strict=True)
        block = drawn.choices(kinds, weights)[0](drawn, num_chars - length)
        blocks.append(block)
        length += len(block) + 2
    return "\n\n".join(blocks)


def draft(num_chars: int, *, seed: int = 1) -> str:
    """Return a text as somebody types it: sentences on lines of their own."""
    drawn = random.Random(seed)
    lines: list[str] = []
    length = 0
    while length < num_chars:
        lines.append(" ".join(_sentence(drawn, drawn.randint(5, 25)) for _ in range(drawn.randint(1, 4))))
        length += len(lines[-1]) + 1
    return "\n".join(lines)[:num_chars]


def _finished(text: str) -> ReplyTurn:
    metrics = RequestMetrics(
        num_prompt_tokens=200,
        num_cached_tokens=150,
        num_generated_tokens=max(2, len(text) // CHARS_PER_TOKEN),
        ttft_s=0.2,
        prefill_s=0.15,
        decode_s=len(text) / 400,
    )
    return ReplyTurn("Model", state=ReplyState.DONE, text=text, finish_reason=FinishReason.STOP, metrics=metrics)


def _sentence(drawn: random.Random, num_words: int) -> str:
    words = drawn.choices(_WORDS, k=num_words)
    if num_words > 8 and drawn.random() < 0.3:
        marks = ("**{}**", "*{}*", "`{}`", "[{}](https://example.org/page)")
        at = drawn.randrange(num_words)
        words[at] = drawn.choice(marks).format(words[at])
    return " ".join(words).capitalize() + "."


def _paragraph(drawn: random.Random, room: int) -> str:
    sentences = [_sentence(drawn, drawn.randint(6, 22)) for _ in range(max(1, min(6, room // 110)))]
    if drawn.random() < 0.15:
        sentences.insert(len(sentences) // 2, f"So ${drawn.choice(_FORMULAS)}$ holds.")
    return " ".join(sentences)


def _list(drawn: random.Random, room: int) -> str:
    lines = []
    for number in range(1, max(2, min(8, room // 60)) + 1):
        mark = f"{number}." if room % 2 else "-"
        lines.append(f"{mark} {_sentence(drawn, drawn.randint(4, 12))}")
        if drawn.random() < 0.3:
            lines.append(f"   - {_sentence(drawn, drawn.randint(3, 8))}")
    return "\n".join(lines)


def _table(drawn: random.Random, room: int) -> str:
    head = "| name | what it does | number | note |\n|---|---|--:|---|"
    rows = [
        f"| {drawn.choice(_WORDS)} | {' '.join(drawn.choices(_WORDS, k=5))} | {drawn.randint(1, 9999)} | `{number}` |"
        for number in range(max(2, min(12, room // 60)))
    ]
    return "\n".join([head, *rows])


def _code(drawn: random.Random, room: int) -> str:
    lines = []
    for number in range(max(3, min(100, room // 45))):
        name, other = drawn.choice(_WORDS), drawn.choice(_WORDS)
        lines.append(
            (
                f"def {name}_{number}({other}: int) -> str:",
                f"    {name} = [value * {number} for value in {other}]  # {drawn.choice(_WORDS)}",
                f'    return f"{{{name}}} and {other}"',
                "",
            )[number % 4]
        )
    return "```python\n" + "\n".join(lines) + "\n```"


def _heading(drawn: random.Random, room: int) -> str:
    return f"## {' '.join(drawn.choices(_WORDS, k=4)).capitalize()}"


def _display_formula(drawn: random.Random, room: int) -> str:
    return f"$$\n{drawn.choice(_FORMULAS)}\n$$"


def _quote(drawn: random.Random, room: int) -> str:
    return f"> {_sentence(drawn, 18)}"


def _other_scripts(drawn: random.Random, room: int) -> str:
    return f"{_CJK * drawn.randint(1, 2)}\n\n{drawn.choice(_RTL)} `code`\n\n{_EMOJI}"


_KINDS: Sequence[tuple[Callable[[random.Random, int], str], float]] = (
    (_paragraph, 10),
    (_list, 4),
    (_table, 1.5),
    (_code, 1.5),
    (_heading, 2),
    (_display_formula, 0.7),
    (_quote, 0.7),
    (_other_scripts, 1),
)
