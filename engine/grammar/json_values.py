"""JSON values as grammar: the rules that all schemas share, texts that are given, and strings."""

import json
from typing import Any

from engine.grammar.pattern import ANY_CHAR, pattern_to_grammar
from engine.grammar.schema_merge import counts, schema_fault

_MEMBER = 'string ws ":" ws value'
RULES = {
    "root": "",
    # One blank, or a line break with a bounded indent: a model could go on with blanks for ever.
    "ws": r'(" " | "\n" [ \t]{0,20})?',
    "char": ANY_CHAR,
    "plain": r'[^"\\\x00-\x1F]',
    "string": r'"\"" char* "\""',
    "integer": '"-"? ("0" | [1-9] [0-9]{0,14})',
    "number": '"-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "object": f'"{{" ws ({_MEMBER} ("," ws {_MEMBER})* ws)? "}}"',
    "array": '"[" ws (value ("," ws value)* ws)? "]"',
    "value": "object | array | string | number | boolean | null",
}
_DATE = '[0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | "1" [0-9] | "2" [0-8])'  # there in every month
_HOUR, _SIXTY = '([01] [0-9] | "2" [0-3])', "[0-5] [0-9]"
_TIME = f'{_HOUR} ":" {_SIXTY} ":" {_SIXTY} ("." [0-9]{{1,6}})? ("Z" | [-+] {_HOUR} ":" {_SIXTY})'
_HEX = "[0-9a-fA-F]"
_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f'{_DATE} "T" {_TIME}',
    "uuid": ' "-" '.join(f"{_HEX}{{{count}}}" for count in (8, 4, 4, 4, 12)),
}


def literal(value: Any, *, is_bare: bool = False) -> str:
    """Return the grammar of one JSON value; of a string's inside where it is bare."""
    text = json.dumps(value, ensure_ascii=False)
    if any("\ud800" <= char <= "\udfff" for char in text):
        text = json.dumps(value)
    if is_bare:
        text = text[1:-1]
    escaped = (f"\\x{ord(char):02X}" if char < " " else f"\\{char}" if char in '"\\' else char for char in text)
    return f'"{"".join(escaped)}"'


def string_rule(schema: dict[str, Any], where: str) -> str:
    """Return the grammar of the strings that a schema allows.

    Raises:
        GrammarError: a keyword is wrong, or they cannot be kept together.
    """
    has_length = "minLength" in schema or "maxLength" in schema
    form = _FORMATS.get(schema["format"]) if isinstance(schema.get("format"), str) else None
    if "pattern" in schema:
        if has_length or form:
            raise schema_fault("`pattern` stands beside a length or a format", where, "Put the length into it.")
        return f'"\\"" ({pattern_to_grammar(schema["pattern"])}) "\\""'
    if form:
        if has_length:
            raise schema_fault("a length stands beside a format", where, "Leave it out.")
        return f'"\\"" {form} "\\""'
    if not has_length:
        return "string"
    minimum, maximum = counts(schema, "minLength", "maxLength", where)
    return f'"\\"" char{{{minimum},{"" if maximum is None else maximum}}} "\\""'
