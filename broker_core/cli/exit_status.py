"""How `streamlog` ends. This module loads nothing, so that the command can end quietly while it still starts.

0    done; for `produce`: every value is durable
1    an error: what and where is said in one sentence on stderr
2    usage: an argument or option is wrong
3    `log verify` or `log dump` found damage
129  stopped by SIGHUP
130  stopped by Ctrl-C
141  the reader of our output went away (| head)
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
    """What a shell shows of a process that a signal ended."""
    return _FIRST_OF_SIGNALS + number
