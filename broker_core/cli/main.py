"""Entry point of `streamlog`. It loads next to nothing, so that Ctrl-C is quiet from the first moment on."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from broker_core.cli.exit_status import INTERRUPTED
from broker_core.model.loading import without_collections, without_hypothesis


def main() -> NoReturn:
    """The console script."""
    if hasattr(signal, "SIGPIPE"):
        # Dies as other filters die when `| head` has seen enough, without a word.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        with without_collections(), without_hypothesis():
            from broker_core.cli.command_line import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)


if __name__ == "__main__":
    main()
