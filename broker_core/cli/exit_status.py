"""The exit codes of `streamlog`. This module imports nothing, so that the command can end quietly during its start.

0    done; for `produce`: every value is durable
1    an error, described in one sentence on stderr
2    usage: an argument or option is wrong
3    `log verify` or `log dump` found damage
129  stopped by SIGHUP
130  stopped by Ctrl-C
141  the reader of the output closed the pipe (| head)
143  stopped by SIGTERM
"""

from __future__ import annotations

from typing import Final

OK: Final = 0
ERROR: Final = 1
USAGE: Final = 2
DAMAGE_FOUND: Final = 3
INTERRUPTED: Final = 130
OUTPUT_CLOSED: Final = 141

_FIRST_OF_SIGNALS: Final = 128

EXIT_CODES_HELP: Final = (
    "Exit codes: 0 done, 1 an error, 2 wrong usage, 3 damage found by 'log verify' or 'log dump', "
    "130 stopped by Ctrl-C, 141 output closed by its reader, 143 stopped by SIGTERM."
)


def exit_status_of_signal(number: int) -> int:
    """The exit code that a shell shows for a process ended by a signal."""
    return _FIRST_OF_SIGNALS + number
