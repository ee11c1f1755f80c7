"""Calls callbacks on the loop: an exception in one of them is logged, and the others are still called."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from broker_core.model.exceptions import StreamlogError

OnError = Callable[[StreamlogError], None]
"""Called with the error in place of an answer."""

_log: Final = logging.getLogger(__name__)


def log_callback_errors(where: str, callback: Callable[..., object], *arguments: object) -> None:
    """Calls the callback. An exception is a programming error: it is logged with `where` and its traceback."""
    try:
        callback(*arguments)
    except Exception:
        _log.exception("%s: a callback failed", where)


def log_all_callback_errors(where: str, callbacks: Iterable[Callable[[], object]]) -> None:
    for callback in callbacks:
        log_callback_errors(where, callback)
