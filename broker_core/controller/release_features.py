"""Releases of Kafka and the levels of features that a new cluster of each begins with.

A release is named as Kafka names it, `4.3-IV0` or in short `4.3` (its last level). Levels that are asked for override
those of the release.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker_core.metadata.metadata_version import (
    ELIGIBLE_LEADERS_FEATURE,
    ELIGIBLE_LEADERS_LEVEL,
    KRAFT_VERSION_FEATURE,
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_LEVEL,
)
from broker_core.model.exceptions import InvalidConfigError

LOWEST_METADATA_VERSION: Final = 7

_RELEASES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0",
    "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
)  # fmt: skip
RELEASE_OF_LEVEL: Final[Mapping[int, str]] = MappingProxyType(dict(enumerate(_RELEASES, start=LOWEST_METADATA_VERSION)))
"""The name of each level of `metadata.version`, the lowest first."""

_NEW_SINCE: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    ELIGIBLE_LEADERS_FEATURE: ((26, 1),),
    "group.version": ((22, 1),),
    "share.version": ((28, 1),),
    "streams.version": ((29, 1),),
    "transaction.version": ((24, 2),),
}
"""(from this metadata.version on, new clusters begin with this level)."""
HIGHEST_LEVELS: Final[Mapping[str, int]] = {
    **{feature: levels[-1][1] for feature, levels in _NEW_SINCE.items()},
    KRAFT_VERSION_FEATURE: 1,
}


def level_of_release(name: str) -> int:
    """The `metadata.version` of a release. Raises InvalidConfigError."""
    short = name if "-" in name else ".".join(name.split(".")[:2])
    for level, release in sorted(RELEASE_OF_LEVEL.items(), reverse=True):
        if short in (release, release.partition("-")[0]):
            return level
    raise InvalidConfigError(
        f"unknown release {name!r}; known are {', '.join(RELEASE_OF_LEVEL.values())}, also in short, as 4.3"
    )


def levels_of_new_cluster(release: str | None, asked: Mapping[str, int]) -> dict[str, int]:
    """Every feature but `kraft.version` with its level, 0 included, `metadata.version` first and the others by name.
    Raises InvalidConfigError for a level that no new cluster can have."""
    if release is not None and METADATA_VERSION_FEATURE in asked:
        raise InvalidConfigError(f"the release and {METADATA_VERSION_FEATURE} exclude each other: give one of them")
    level = METADATA_VERSION_LEVEL if release is None else level_of_release(release)
    level = asked.get(METADATA_VERSION_FEATURE, level)
    if level not in RELEASE_OF_LEVEL:
        raise InvalidConfigError(
            f"{METADATA_VERSION_FEATURE}={level}: levels are {LOWEST_METADATA_VERSION} to {METADATA_VERSION_LEVEL}"
        )
    for feature, wanted in asked.items():
        _check_level(feature, wanted)
    levels = {METADATA_VERSION_FEATURE: level}
    for feature, since in sorted(_NEW_SINCE.items()):
        default = max((new for first, new in since if level >= first), default=0)
        levels[feature] = asked.get(feature, default)
    if levels[ELIGIBLE_LEADERS_FEATURE] > 0 and level < ELIGIBLE_LEADERS_LEVEL:
        raise InvalidConfigError(
            f"{ELIGIBLE_LEADERS_FEATURE}={levels[ELIGIBLE_LEADERS_FEATURE]} needs {METADATA_VERSION_FEATURE} "
            f"{ELIGIBLE_LEADERS_LEVEL} ({RELEASE_OF_LEVEL[ELIGIBLE_LEADERS_LEVEL]}) or more, and it is {level}"
        )
    return levels


def _check_level(feature: str, level: int) -> None:
    if feature == METADATA_VERSION_FEATURE:
        return
    if feature not in HIGHEST_LEVELS:
        raise InvalidConfigError(f"unknown feature {feature!r}; known are {', '.join(sorted(HIGHEST_LEVELS))}")
    if not 0 <= level <= HIGHEST_LEVELS[feature]:
        raise InvalidConfigError(f"{feature}={level}: levels are 0 to {HIGHEST_LEVELS[feature]}")
