"""Callbacks of the loop, one caller's fault kept away from all the others who wait: logged, and gone on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from broker_core.model.exceptions import StreamlogError

OnError = Callable[[StreamlogError], None]
"""What hears, in place of an answer, why there is none."""

_log: Final = logging.getLogger(__name__)


def log_callback_errors(where: str, callback: Callable[..., object], *arguments: object) -> None:
    """Calls it. An exception is a fault of ours: a line in the log that says where, with its trace."""
    try:
        callback(*arguments)
    except Exception:
        _log.exception("%s: a callback failed", where)


def log_all_callback_errors(where: str, callbacks: Iterable[Callable[[], object]]) -> None:
    for callback in callbacks:
        log_callback_errors(where, callback)
