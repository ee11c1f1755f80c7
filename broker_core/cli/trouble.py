"""Trouble, told in one sentence."""

from __future__ import annotations

import typer

from broker_core.model.exceptions import StreamlogError


class UsageTrouble(typer.BadParameter):
    """An argument that the parser took and the command cannot. The parser adds which command it was."""

    def format_message(self) -> str:
        return self.message


def sentence(trouble: Exception) -> str:
    """What went wrong, on one line and without a traceback."""
    if isinstance(trouble, StreamlogError):
        text = trouble.message
    elif isinstance(trouble, OSError) and trouble.strerror:
        text = f"{trouble.filename}: {trouble.strerror}" if trouble.filename else trouble.strerror
    else:
        text = f"{type(trouble).__name__}: {trouble}"
    return " ".join(text.split())
