"""The program as the terminal sees it: finds the command, runs it, and turns whatever happens into an exit code."""

import argparse
import errno
import faulthandler
import importlib
import logging
import os
import sys

from app import __version__
from app.cli.arguments import ArgumentParser, add_shared_flags
from app.cli.display import qt_install_line, why_no_window
from app.cli.streams import abandon_output, ended_in_order
from app.errors import DataFolderError, UsageError
from app.log import start_fault_log, start_log, stop_log
from app.paths import DATA_DIR_VARIABLE, Paths, find_paths

_LOG = logging.getLogger(__name__)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what a write ends with when there is no more room
_COMMANDS = ("chat", "bench", "compare", "models", "quantize", "cache", "doctor")
_USAGE = """usage: fireside [options] [COMMAND ...]

Without a command the window opens.

commands:
  chat                  answer a prompt, a pipe or a file of turns, or chat in the terminal
  bench                 measure how fast a model runs on this machine
  compare               ask several models the same, and show what each costs and says
  models                list, scan, inspect and remove the models on this machine
  quantize              make smaller files of a model
  cache                 show what is kept of prompts that were read, and forget it
  doctor                show versions, devices, memory bandwidth and paths

`fireside COMMAND --help` shows what a command takes.

"""


def run_program(arguments: list[str]) -> int:
    """Do what a command line asks for, and return the exit code; nothing but KeyboardInterrupt is raised."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        abandon_output()
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            abandon_output()
            print(f"fireside: The output could not be written: {error.strerror}.", file=sys.stderr)
            print("Free some space, or send it elsewhere.", file=sys.stderr)
            return 1
        from app.cli.outcome import report  # knows the errors of the engine, which `--help` has no use for

        flags = arguments[: _end_of_flags(arguments)]
        return report(error, as_json="--json" in flags, debug="--debug" in flags)
    return code


def _run(arguments: list[str]) -> int:
    end = _end_of_flags(arguments)
    parser = ArgumentParser(prog="fireside", add_help=False)
    add_shared_flags(parser)
    parser.add_argument("--version", action="store_true", help="show the version")
    options, rest = parser.parse_known_args(arguments[:end])
    rest += arguments[end:]
    command = rest[0] if rest else None
    if command in ("-h", "--help"):
        print(_USAGE + parser.format_help().partition("\n\n")[2], end="")
        return 0
    if options.version:
        print(f"fireside {__version__}")
        return 0
    if command is not None and command not in _COMMANDS:
        what = "option" if command.startswith("-") else "command"
        raise UsageError(f"There is no {what} {command!r}.", "See `fireside --help`.")
    paths = _find_paths(options.data_dir)
    handler, faults = start_log(paths, debug=options.debug), start_fault_log(paths)
    try:
        return _open_window(options, paths) if command is None else _run_command(command, rest[1:], options, paths)
    except BrokenPipeError:
        raise
    except Exception:
        _LOG.info("the program ends with an error", exc_info=True)
        raise
    finally:
        stop_log(handler)
        if faults is not None:
            faulthandler.disable()
            faults.close()


def _end_of_flags(arguments: list[str]) -> int:
    # What follows `--` is a prompt, whatever it looks like.
    return arguments.index("--") if "--" in arguments else len(arguments)


def _find_paths(data_dir: str | None) -> Paths:
    if data_dir is not None and not data_dir.strip():
        raise UsageError("The folder for the data has no name.", "Give one, as in `--data-dir DIR`.")
    paths = find_paths(data_dir)
    try:
        paths.create()
    except DataFolderError:
        # A folder the user chose must be usable; without one of the platform's, chatting still works.
        if data_dir is not None or os.environ.get(DATA_DIR_VARIABLE):
            raise
    return paths


def _run_command(command: str, rest: list[str], options: argparse.Namespace, paths: Paths) -> int:
    module = importlib.import_module(f"app.cli.{command}")
    parser = ArgumentParser(prog=f"fireside {command}", description=module.__doc__)
    module.add_arguments(parser)
    # The shared flags were taken out before, wherever they stood; here they are for the help.
    add_shared_flags(parser)
    parser.set_defaults(**vars(options))
    with ended_in_order():
        return int(module.run(parser.parse_args(rest), paths))


def _open_window(options: argparse.Namespace, paths: Paths) -> int:
    reason, hint = why_no_window()
    if reason is None:
        try:
            from app.desktop.application import run_window
        except ImportError as error:
            if (error.name or "").partition(".")[0] in ("app", "engine", "models"):
                raise
            reason, hint = f"The window cannot be opened: {error}.", qt_install_line(error)
        else:
            return run_window(paths, model=options.model, fake_engine=options.fake_engine)
    print(f"fireside: {reason} The chat opens in this terminal instead.", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)
    return _run_command("chat", [], options, paths)
