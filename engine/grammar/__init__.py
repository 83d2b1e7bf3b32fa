"""Grammars and JSON schemas that a reply has to follow; no native code, see `notation.py` for the reason."""

from engine.errors import GrammarError
from engine.grammar.compiled import CompiledGrammar
from engine.grammar.json_schema import schema_to_grammar
from engine.grammar.matcher import Matcher
from engine.grammar.notation import parse_grammar
from engine.grammar.tokens import Indices, TokenTable
from engine.params import SamplingParams

__all__ = ["Indices", "Matcher", "TokenTable", "grammar_of", "new_matcher", "parse_grammar", "schema_to_grammar"]


def grammar_of(params: SamplingParams) -> str | None:
    """Return the grammar that the settings ask for, None where they ask for none.

    Raises:
        GrammarError: there is a JSON schema that cannot be used.
    """
    return params.grammar if params.json_schema is None else schema_to_grammar(params.json_schema)


def new_matcher(params: SamplingParams, table: TokenTable, reply: str = "") -> Matcher | None:
    """Return what a reply has to follow, None where it is free.

    Args:
        reply: the half answer that is continued.

    Raises:
        GrammarError: the grammar or schema cannot be used, or the half answer does not fit it.
    """
    try:
        text = grammar_of(params)
        if text is None:
            return None
        matcher = Matcher(CompiledGrammar(parse_grammar(text), table), table)
    except (RecursionError, MemoryError) as error:
        raise GrammarError(
            "The grammar or JSON schema is nested too deeply, or too large.", "Make it smaller."
        ) from error
    if not matcher.take_text(reply.encode("utf-8", "replace")):
        raise GrammarError(
            "The half answer does not fit the grammar.", "Continue it without the grammar, or ask for a new answer."
        )
    if matcher.is_complete and not table.end_ids:
        raise GrammarError("The answer is complete already.", "Ask for a new answer.")
    return matcher
