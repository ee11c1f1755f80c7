"""The syntax of `startingOffsets` for a start relative to now, to the end or to a consumer group.

    -10m  -2h  -30s  -1d   the first record since then       a number with a unit: -1 and -2 mean latest and earliest
    latest-1000            a count of offsets below the end  at least one
    group:billing          the group's committed offsets     the id keeps its case

Words may have any case. Every error is a ValueError with the reason.
"""

from __future__ import annotations

import re

from spark_streamlog.planning.offset_limits import BeforeEnd, BeforeNow, CommittedByGroup, RelativeStart
from spark_streamlog.planning.partition_json import MAX_OFFSET
from spark_streamlog.planning.quantity import duration_ms

FORMS = "-10m (ten minutes ago), latest-1000 (a thousand offsets before the end) or group:<id>"


def relative_start_of(text: str) -> RelativeStart | None:
    """None if the text is none of the three forms, and does not look like one."""
    text = text.strip()
    if text.startswith("-"):
        return BeforeNow(duration_ms=_duration_ms(text))
    if re.match(r"latest\s*-", text, re.IGNORECASE):
        return BeforeEnd(offset_count=_offset_count(text))
    if re.match(r"group\s*:", text, re.IGNORECASE):
        return CommittedByGroup(group_id=_group_id(text))
    return None


def _duration_ms(text: str) -> int:
    found = duration_ms(text[1:], needs_unit=True)
    if not found or found > MAX_OFFSET:
        raise ValueError(f"{text[:60]!r} is not a duration before now; expected for example -30s, -10m, -2h or -1d")
    return found


def _offset_count(text: str) -> int:
    number = text.partition("-")[2].strip()
    if not re.fullmatch(r"0*[1-9][0-9]{0,18}", number, re.ASCII) or int(number) > MAX_OFFSET:
        raise ValueError(f"{text[:60]!r} is not a count of offsets before the end; expected for example latest-1000")
    return int(number)


def _group_id(text: str) -> str:
    group_id = text.partition(":")[2].strip()
    if not group_id:
        raise ValueError(f"{text!r} does not name a consumer group; expected for example group:billing")
    return group_id
