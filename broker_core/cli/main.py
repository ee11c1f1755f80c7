"""Entry point of `streamlog`. It imports almost nothing, so that Ctrl-C is quiet from the start."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from broker_core.cli.exit_status import INTERRUPTED
from broker_core.model.loading import without_collections, without_hypothesis


def main() -> NoReturn:
    """The console script."""
    if hasattr(signal, "SIGPIPE"):
        # Ends silently if `| head` closes the pipe, like other filters.
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
