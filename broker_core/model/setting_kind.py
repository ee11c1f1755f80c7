"""The types of settings, and how DescribeConfigs writes a value of each: parsed, not as it was typed.

    shown_value(SettingKind.LONG, " 007 ") == "7"
    shown_value(SettingKind.DOUBLE, "1") == "1.0"

The rules are those of Kafka's ConfigDef: parseType, then convertToString.
"""

from __future__ import annotations

import enum

from broker_core.model.java_numbers import JAVA_BLANKS, read_double, read_whole_number, show_double
from broker_core.model.setting_parsers import items_of


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


def shown_value(kind: SettingKind, text: str, *, keeps_duplicates: bool = False) -> str | None:
    """None for a secret. A list loses its duplicates, as Kafka's lists do, unless `keeps_duplicates`.

    What is no value of its kind (a newer version stored it) is shown as it is.
    """
    match kind:
        case SettingKind.PASSWORD | SettingKind.UNKNOWN:
            return None
        case SettingKind.BOOLEAN:
            return text.strip(JAVA_BLANKS).lower()
        case SettingKind.LIST:
            items = items_of(text)
            return ",".join(items if keeps_duplicates else dict.fromkeys(items))
        case SettingKind.INT | SettingKind.SHORT | SettingKind.LONG:
            whole = read_whole_number(text)
            return text if whole is None else str(whole)
        case SettingKind.DOUBLE:
            number = read_double(text)
            return text if number is None else show_double(number)
    return text.strip(JAVA_BLANKS)
