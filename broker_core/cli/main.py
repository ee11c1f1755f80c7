"""Entry point of `streamlog`. It imports nothing before it is ready for Ctrl-C, which is quiet from the start."""

from __future__ import annotations

import sys


def main() -> None:
    """The console script."""
    try:
        status = _run()
    except KeyboardInterrupt:
        from broker_core.cli.exit_status import INTERRUPTED

        status = INTERRUPTED
    sys.exit(status)


def _run() -> int:
    import signal

    from broker_core.model.loading import without_collections, without_hypothesis

    if hasattr(signal, "SIGPIPE"):
        # Ends silently if `| head` closes the pipe, like other filters.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with without_collections(), without_hypothesis():
        from broker_core.cli.command_line import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    main()
