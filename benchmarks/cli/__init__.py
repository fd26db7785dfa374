"""The command line."""

import sys


def run_program() -> None:
    """Run the program; an interruption while it is being loaded ends it without a traceback too."""
    try:
        from .main import main

        main()
    except KeyboardInterrupt:
        print("captau: stopped", file=sys.stderr)
        raise SystemExit(130) from None
