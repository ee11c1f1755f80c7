"""Reads the properties file of --command-config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker_core.cli.error_sentence import UsageError


def read_properties(path: Path) -> Mapping[str, str]:
    """Raises UsageError for a file that is not UTF-8, OSError for one that cannot be read."""
    from broker_core.model.properties import parse_properties

    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a properties file: {error.reason} at byte {error.start}") from error
