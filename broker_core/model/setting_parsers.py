"""Texts of settings into values: numbers, booleans and lists as Java reads them, with Kafka's words for what is wrong.

    Invalid value 3 for configuration segment.bytes: Value must be at least 1048576

Blanks around a value are allowed. A parser is called with the setting's name and its text, and raises
InvalidConfigError with the fields `setting` and `value`. The message has the text if it cannot be parsed, and the
parsed value if that is out of range.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.identifiers import TimestampType
from broker_core.model.java_numbers import JAVA_BLANKS, read_double, read_whole_number, show_double

SettingValue = bool | int | float | str | frozenset[str] | tuple[str, ...] | TimestampType
Parser = Callable[[str, str], SettingValue]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_LIST_BLANKS = " \t\n\v\f\r"
"""What Kafka removes around a comma."""


def invalid_value(name: str, value: str, why: str) -> InvalidConfigError:
    """The error for a value that the setting cannot take, in Kafka's words."""
    return InvalidConfigError(f"Invalid value {value} for configuration {name}: {why}", setting=name, value=value)


def empty_item(name: str, value: str) -> InvalidConfigError:
    """The error for a list with an empty item, in Kafka's words, which are not like those for other values."""
    return InvalidConfigError(f"Configuration '{name}' values must not be empty.", setting=name, value=value)


def _whole_number(java_type: str, lowest: int, highest: int, at_least: int | None, at_most: int | None) -> Parser:
    def parse(name: str, value: str) -> int:
        number = read_whole_number(value)
        if number is None or not lowest <= number <= highest:
            raise invalid_value(name, value, f"Not a number of type {java_type}")
        if at_least is not None and number < at_least:
            raise invalid_value(name, str(number), f"Value must be at least {at_least}")
        if at_most is not None and number > at_most:
            raise invalid_value(name, str(number), f"Value must be no more than {at_most}")
        return number

    return parse


def int_parser(at_least: int | None = None, at_most: int | None = None) -> Parser:
    return _whole_number("INT", -INT_MAX - 1, INT_MAX, at_least, at_most)


def long_parser(at_least: int | None = None) -> Parser:
    return _whole_number("LONG", -LONG_MAX - 1, LONG_MAX, at_least, None)


def double(name: str, value: str) -> float:
    number = read_double(value)
    if number is None:
        raise invalid_value(name, value, "Not a number of type DOUBLE")
    return number


def ratio(name: str, value: str) -> float:
    """From 0 to 1, or NaN as in Kafka: no log is ever dirty enough."""
    number = double(name, value)
    if number < 0:
        raise invalid_value(name, show_double(number), "Value must be at least 0")
    if number > 1:
        raise invalid_value(name, show_double(number), "Value must be no more than 1")
    return number


def text(name: str, value: str) -> str:
    """Anything."""
    return value.strip(JAVA_BLANKS)


def boolean(name: str, value: str) -> bool:
    text = value.strip(JAVA_BLANKS).lower()
    if text not in ("true", "false"):
        raise invalid_value(name, value, "Expected value to be either true or false")
    return text == "true"


def one_of(*choices: str) -> Parser:
    def parse(name: str, value: str) -> str:
        text = value.strip(JAVA_BLANKS)
        if text not in choices:
            raise invalid_value(name, text, f"String must be one of: {', '.join(choices)}")
        return text

    return parse


def items_of(value: str) -> list[str]:
    text = value.strip(JAVA_BLANKS)
    return [item.strip(_LIST_BLANKS) for item in text.split(",")] if text else []


def set_of(*choices: str) -> Parser:
    def parse(name: str, value: str) -> frozenset[str]:
        items = items_of(value)
        for item in items:
            if not item:
                raise empty_item(name, value)
            if item not in choices:
                raise invalid_value(name, item, f"String must be one of: {', '.join(choices)}")
        return frozenset(items)

    return parse
