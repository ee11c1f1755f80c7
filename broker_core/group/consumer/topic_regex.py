"""Regular expressions that members of KIP-848 groups subscribe by: Google's RE2, as in Kafka's coordinator.

RE2's own library: what it accepts is what Kafka accepts (Kafka uses its Java twin), and it matches in time linear in
the topic's name whatever the expression. Python's `re` would need a subset to be carved out of it, and an expression of
thirty characters can keep it busy for years.
"""

from __future__ import annotations

import functools
from typing import Final, Protocol, cast

import re2

MAX_REGEX_BYTES: Final = 2**15 - 1
"""The largest that fits a record's key."""

_MAX_PROGRAM_BYTES: Final = 8 * 1024 * 1024
"""RE2 refuses an expression whose compiled form would take more."""

_CACHE_COUNT: Final = 256


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


def refusal_of_regex(regex: str) -> str | None:
    """The error message for the expression; None if it is valid."""
    try:
        _compiled(regex)
    except (re2.error, UnicodeEncodeError) as error:
        return f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {_text_of(error)}."
    return None


def matches(regex: str, topic: str) -> bool:
    """Whether the whole name matches. An expression that RE2 refuses, stored by an older version, matches nothing."""
    try:
        return _compiled(regex).fullmatch(topic) is not None
    except (re2.error, UnicodeEncodeError):
        return False


@functools.lru_cache(maxsize=_CACHE_COUNT)
def _compiled(regex: str) -> Pattern:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_PROGRAM_BYTES
    return cast(Pattern, re2.compile(regex, options=options))


def _text_of(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
