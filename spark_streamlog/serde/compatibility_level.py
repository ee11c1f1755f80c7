"""What a registry asks of a new version of a subject: Confluent's compatibility levels.

BACKWARD    the new schema reads what was written with the latest version       so readers are changed first
FORWARD     the latest version reads what is written with the new schema        so writers are changed first
FULL        both
…_TRANSITIVE    with every version, not only the latest
NONE        nothing is asked
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from spark_streamlog.serde.avro_compatibility import incompatibility


class CompatibilityLevel(enum.Enum):
    """By Confluent's words."""

    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"
    NONE = "NONE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def asks_backward(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def asks_forward(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


DEFAULT_LEVEL: Final = CompatibilityLevel.BACKWARD


def broken_promise(level: CompatibilityLevel, new: str, versions: Sequence[tuple[int, str]]) -> str | None:
    """What the level asks and a new Avro schema does not keep, in words; None: it may be registered.

    `versions`: number and text of the subject's versions, ascending. Raises InvalidSchemaError.
    """
    asked = versions if level.is_transitive else versions[-1:]
    for number, text in reversed(asked):
        if level.asks_backward and (reason := incompatibility(new, text)) is not None:
            return f"it cannot read what was written with version {number} ({reason})"
        if level.asks_forward and (reason := incompatibility(text, new)) is not None:
            return f"version {number} cannot read what is written with it ({reason})"
    return None
