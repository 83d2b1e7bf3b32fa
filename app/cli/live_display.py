"""What the chat in a terminal shows beside its messages: its help, and the rate in the title."""

import sys

from engine import Delta

COMMANDS_HELP = """\
/help             this list
/new              begin a new chat
/system TEXT      change the system prompt and begin a new chat; without TEXT, none
/set NAME=VALUE   change a sampling setting; without NAME, show all
/attach FILE      put a text, code or PDF file before the next message; without FILE, none
/prepare          read what is attached, or the chat so far, ahead of the next message
/cache            what is kept of prompts; `/cache forget NAME` and `/cache clear` delete it
/lora NAME=1      use an adapter at a strength, 0 for without; without NAME, show all
/draft NAME       what guesses tokens ahead: a model, ngram, both, auto or none; without NAME, show all
/model PATH       load another model, or `starter`; without PATH, load the same again
/again            ask once more for the last reply, computed anew
/continue         go on with the last reply
/prompt           the chat as the model reads it
/stats            the numbers of the last reply
/quit             leave (also Ctrl-D)
"""
KEYS_HELP = """
Enter sends. Alt+Enter, or a backslash at the end of a line, begins a new line.
Ctrl-C stops a reply; at an empty prompt, twice, it leaves."""


def show_live(delta: Delta) -> None:
    """Show the rate so far in the terminal's title: the text itself is not interrupted."""
    if delta.decode_s > 0:
        rate = (delta.num_generated_tokens - 1) / delta.decode_s
        set_title(f"{rate:.1f} tok/s, {delta.num_context_tokens:,} tokens")


def set_title(text: str) -> None:
    """Give the terminal a title, if it is one."""
    if sys.stdout.isatty():
        print(f"\x1b]0;{text}\x07", end="", flush=True)
