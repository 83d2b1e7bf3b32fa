"""`fireside`: where the program begins.

Every engine process that is spawned imports this file again, so it imports nothing heavy: what a command needs is
imported when it runs, and Qt only when the window opens.
"""

import multiprocessing
import sys


def main(argv: list[str] | None = None) -> int:
    """Run the program and return its exit code.

    Args:
        argv: stands in for the command line.
    """
    try:
        from app.cli.program import run_program
        from app.cli.streams import never_fail_to_print, open_standard_streams, speak_utf_8

        open_standard_streams()
        multiprocessing.freeze_support()
        if argv is None:
            speak_utf_8()
        never_fail_to_print()
        return run_program(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # before a command was there to take note of it
        return 130


if __name__ == "__main__":
    sys.exit(main())
