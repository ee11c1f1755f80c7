"""Runs `consume --follow` in this process, with changes of the log between its polls."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from broker_core.cli import consume_command, consumed_topic


def between_polls(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object], look_seconds: float = 0) -> None:
    """Instead of each wait for new records the next step runs; after the last one the command gets a Ctrl-C."""
    left = list(steps)

    def wait(*what: object) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    monkeypatch.setattr(consume_command, "select", SimpleNamespace(select=wait))
    monkeypatch.setattr(consumed_topic, "LOOK_SECONDS", look_seconds)
