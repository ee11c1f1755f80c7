"""How many examples a property tries: all of them in Hypothesis' profile `thorough`, by default a quarter."""

from typing import Any

from hypothesis import settings

LEAST = 20
PERCENT = 100
"""The profile `thorough` has so many `max_examples`; the default one has the share that is tried by default."""


def examples(count: int, **others: Any) -> settings:
    """Settings of a property with `count` examples, or with the share of them that the loaded profile takes."""
    share = count * settings().max_examples // PERCENT
    return settings(max_examples=max(share, min(count, LEAST)), **others)
