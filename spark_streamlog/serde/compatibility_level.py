"""Confluent's compatibility levels: what a registry requires of a new version of a subject.

BACKWARD    the new schema can read values written with the latest version      so readers are upgraded first
FORWARD     the latest version can read values written with the new schema      so writers are upgraded first
FULL        both
…_TRANSITIVE    with every version, not only the latest
NONE        nothing
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from spark_streamlog.serde.avro_compatibility import incompatibility


class CompatibilityLevel(enum.Enum):
    """The values are Confluent's names."""

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
    def requires_backward(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def requires_forward(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


DEFAULT_LEVEL: Final = CompatibilityLevel.BACKWARD


def incompatibility_with_versions(
    level: CompatibilityLevel, new: str, versions: Sequence[tuple[int, str]]
) -> str | None:
    """The reason why the level does not allow a new Avro schema. None if it may be registered.

    `versions`: number and text of the subject's versions, ascending. Raises InvalidSchemaError.
    """
    asked = versions if level.is_transitive else versions[-1:]
    for number, text in reversed(asked):
        if level.requires_backward and (reason := incompatibility(new, text)) is not None:
            return f"it cannot read values written with version {number} ({reason})"
        if level.requires_forward and (reason := incompatibility(text, new)) is not None:
            return f"version {number} cannot read values written with it ({reason})"
    return None
