"""Numbers in texts, as Java reads and writes them: Long.parseLong, Double.parseDouble, Double.toString.

    read_whole_number(" +07") == 7
    read_double("0x1p-1f") == 0.5
    show_double(1e-5) == "1.0E-5"

Blanks around a number and a plus sign are allowed, underscores are not. Whole numbers may have the digits of any
script of Unicode's first plane; floating-point numbers only 0 to 9.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
"""What String.trim removes."""
_MAX_LONG_DIGITS: Final = 19
_LAST_CHAR: Final = "\uffff"
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+")
_NAMED_NUMBER: Final = re.compile(r"[+-]?(NaN|Infinity)")
_DECIMAL_NUMBER: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEXADECIMAL_NUMBER: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_LEAST_DECIMAL: Final = 1e-3
_LEAST_SCIENTIFIC: Final = 1e7
"""Java's Double.toString writes numbers from the first up to the second without an exponent."""


def read_whole_number(text: str) -> int | None:
    """None for what is no number of at most 64 bits, or so."""
    text = text.strip(JAVA_BLANKS)
    if not _WHOLE_NUMBER.fullmatch(text) or max(text) > _LAST_CHAR or len(text.lstrip("+-0")) > _MAX_LONG_DIGITS:
        return None
    return int(text)


def read_double(text: str) -> float | None:
    """None for what is no number."""
    text = text.strip(JAVA_BLANKS)
    if found := _NAMED_NUMBER.fullmatch(text):
        # One object, because a NaN equals only itself where values are compared by identity first.
        return math.nan if found[1] == "NaN" else float(text)
    if found := _DECIMAL_NUMBER.fullmatch(text):
        return float(found[1])
    if found := _HEXADECIMAL_NUMBER.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    return None


def show_double(number: float) -> str:
    """0.5, 1.0, 1.0E-5, 1.2345678E7, NaN."""
    if math.isnan(number) or math.isinf(number):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    if number == 0 or _LEAST_DECIMAL <= abs(number) < _LEAST_SCIENTIFIC:
        # At most seven digits before the point and four zeros behind it: Python writes no exponent either.
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int), f"{number} is finite"
    first, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"
