"""Trouble, told in one sentence."""

from __future__ import annotations

from broker_core.model.exceptions import StreamlogError


class UsageTrouble(Exception):
    """An argument that the parser took and the command cannot."""


def sentence(trouble: Exception) -> str:
    """What went wrong, on one line and without a traceback."""
    if isinstance(trouble, StreamlogError):
        text = trouble.message
    elif isinstance(trouble, OSError) and trouble.strerror:
        text = f"{trouble.filename}: {trouble.strerror}" if trouble.filename else trouble.strerror
    else:
        text = f"{type(trouble).__name__}: {trouble}"
    return " ".join(text.split())
