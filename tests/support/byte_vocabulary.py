"""A vocabulary of bytes and a few longer tokens, for following grammars without a model."""

from engine.grammar import Matcher, TokenTable, new_matcher
from engine.params import SamplingParams
from tests.unit.engine.stub_vocabulary import StubVocabulary


class ByteVocabulary(StubVocabulary):
    """All bytes, `longer` tokens of text, a control token `<|c|>` and an end token `<|end|>`."""

    def __init__(self, *longer: str) -> None:
        super().__init__(controls=("<|c|>", "<|end|>"), user_defined=longer)
        self.end_ids = frozenset({self.ids["<|end|>"]})


BYTES = TokenTable(ByteVocabulary())


def grammar_matcher(grammar: str, table: TokenTable = BYTES) -> Matcher:
    """Return a matcher at the beginning of a grammar."""
    matcher = new_matcher(SamplingParams(grammar=grammar), table)
    assert matcher is not None
    return matcher


def schema_matcher(schema: str) -> Matcher:
    """Return a matcher at the beginning of what a JSON schema allows."""
    matcher = new_matcher(SamplingParams(json_schema=schema), BYTES)
    assert matcher is not None
    return matcher


def fits(matcher: Matcher, text: str) -> bool:
    """Return whether a whole text may be a reply; the matcher has moved on then."""
    return matcher.take_text(text.encode("utf-8")) and matcher.may_end
