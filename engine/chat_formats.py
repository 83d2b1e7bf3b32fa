"""Known chat formats, for files that bring no usable template of their own, and the names they are chosen by."""

import re
from typing import NamedTuple

from engine.backend import Vocabulary

FILE_FORMAT = "file"
COMPLETION_FORMAT = "completion"

_NO_SYSTEM = "{% if m.role == 'system' %}{{ raise_exception('no system messages') }}{% endif %}"


class ChatFormat(NamedTuple):
    """A format that is well known.

    Attributes:
        markers: what a vocabulary must have as single tokens.
        template: makes a chat into a prompt.
    """

    markers: tuple[str, ...]
    template: str


KNOWN_FORMATS: dict[str, ChatFormat] = {
    "ChatML": ChatFormat(
        ("<|im_start|>", "<|im_end|>"),
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    ),
    "Llama 3": ChatFormat(
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>"
        "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
    ),
    "Gemma": ChatFormat(
        ("<start_of_turn>", "<end_of_turn>"),
        "{% for m in messages %}" + _NO_SYSTEM + "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
        "{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    ),
    "Phi": ChatFormat(
        ("<|user|>", "<|assistant|>", "<|end|>"),
        "{% for m in messages %}" + _NO_SYSTEM + "<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    ),
}


def usable_formats(vocabulary: Vocabulary) -> list[str]:
    """Return the names of the known formats whose markers are all single tokens."""

    def is_single(text: str) -> bool:
        return len(vocabulary.tokenize(text, parse_special=True)) == 1

    return [name for name, known in KNOWN_FORMATS.items() if all(map(is_single, known.markers))]


def find_format(text: str, names: tuple[str, ...]) -> str | None:
    """Return the one of `names` that is meant: case, blanks and dashes do not matter."""
    plain = {re.sub(r"[\W_]", "", name.lower()): name for name in names}
    return plain.get(re.sub(r"[\W_]", "", text.lower()))
