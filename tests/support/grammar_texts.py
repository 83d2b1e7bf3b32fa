"""Grammars for tests: drawn ones that are well formed, and damaged ones."""

import random

from hypothesis import strategies as st

_LITERALS = ["a", "b", "ab", "ba", "{", "}", '\\"', " ", "\\n", "é", "日本", "👍", "\\x41", "hello", "1"]
_CLASSES = ["[a-z]", "[^a]", "[0-9]", "[ \\t\\n]", "[é-í]", "[^\\x00-\\x7F]", "[ab-]", ".", "[a-zA-Z_]", "[👍日]"]
_SIGNS = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}"]
_NAMES = ("root", "x", "y-1")  # each uses those after it
_SPOILS = [*'"[]()|*+?{}<>!\\.:=\n# ax', "::=", "\\u12", "{9999999}", "<[5]>", "x ::= x\n", "\ud800", "日", "\0"]


def _joined(parts: st.SearchStrategy[str], sep: str, most: int) -> st.SearchStrategy[str]:
    return st.lists(parts, min_size=1, max_size=most).map(sep.join)


def _body(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    terminals = st.sampled_from(_LITERALS).map(lambda text: f'"{text}"') | st.sampled_from(_CLASSES)
    atoms = terminals | st.sampled_from(names) if names else terminals
    signed = st.builds("{}{}".format, atoms, st.sampled_from(_SIGNS))
    groups = st.builds("({}){}".format, _joined(_joined(signed, " ", 3), " | ", 3), st.sampled_from(_SIGNS))
    return _joined(_joined(signed | groups, " ", 3), " | ", 3)


def grammar_texts() -> st.SearchStrategy[str]:
    """Return grammars that are well formed; a few are refused for what their rules mean."""
    return st.tuples(*(_body(_NAMES[number + 1 :]) for number in range(len(_NAMES)))).map(
        lambda bodies: "\n".join(f"{name} ::= {body}" for name, body in zip(_NAMES, bodies, strict=True))
    )


def damaged(generator: random.Random, text: str) -> str:
    """Return a grammar with some characters changed, put in, taken out or doubled."""
    for _ in range(generator.randint(1, 4)):
        start = generator.randrange(len(text) + 1)
        end = start + generator.choice((0, 0, 1, 5))
        text = text[:start] + generator.choice([*_SPOILS, text[start:end] * 2]) + text[end:]
    return text
