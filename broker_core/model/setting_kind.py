"""The types of settings, and how DescribeConfigs writes a value of each: parsed, not as it was typed.

    shown_value(SettingKind.LONG, " 007 ") == "7"
    shown_value(SettingKind.DOUBLE, "1") == "1.0"

The rules are those of Kafka's ConfigDef: parseType, then convertToString.
"""

from __future__ import annotations

import enum
import math
from decimal import Decimal
from typing import Final

from broker_core.model.setting_parsers import JAVA_BLANKS, items_of


class SettingKind(enum.IntEnum):
    """By the numbers of DescribeConfigs answers."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_LEAST_DECIMAL: Final = 1e-3
_LEAST_SCIENTIFIC: Final = 1e7
"""Java's Double.toString writes numbers from the first up to the second without an exponent."""


def shown_value(kind: SettingKind, text: str, *, keeps_duplicates: bool = False) -> str | None:
    """None for a secret. A list loses its duplicates, as Kafka's lists do, unless `keeps_duplicates`.

    What is no value of its kind (a newer version stored it) is shown as it is.
    """
    stripped = text.strip(JAVA_BLANKS)
    match kind:
        case SettingKind.PASSWORD | SettingKind.UNKNOWN:
            return None
        case SettingKind.BOOLEAN:
            return stripped.lower()
        case SettingKind.LIST:
            items = items_of(stripped)
            return ",".join(items if keeps_duplicates else dict.fromkeys(items))
    try:
        match kind:
            case SettingKind.INT | SettingKind.SHORT | SettingKind.LONG:
                return str(int(stripped))
            case SettingKind.DOUBLE:
                return _java_double(float(stripped.rstrip("fFdD")))
    except ValueError:
        return text
    return stripped


def _java_double(number: float) -> str:
    """As Java's Double.toString writes it: 0.5, 1.0, 1.0E-5, 1.2345678E7."""
    if math.isnan(number) or math.isinf(number):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    if number == 0 or _LEAST_DECIMAL <= abs(number) < _LEAST_SCIENTIFIC:
        # At most seven digits before the point and four zeros behind it: Python writes no exponent either.
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int), f"{number} is finite"
    first, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"
