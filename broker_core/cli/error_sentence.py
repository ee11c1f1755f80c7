"""Formats an error as one sentence."""

from __future__ import annotations

import typer

from broker_core.model.exceptions import StreamlogError


class UsageError(typer.BadParameter):
    """An argument that the parser accepts but the command does not. The parser adds the name of the command."""

    def format_message(self) -> str:
        return self.message


def sentence(error: Exception) -> str:
    """The error on one line, without a traceback."""
    if isinstance(error, StreamlogError):
        text = error.message
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = f"{type(error).__name__}: {error}"
    return " ".join(text.split())
