"""Text of others, made harmless."""

import json
import sys

import pytest

from broker_core.cli.printable import printable, printable_json


@pytest.mark.parametrize("text", ["", "plain", "größer 値 🙂", "[red]", "back\\slash"])
def test_printable_text_is_unchanged(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x1b[31m\x9b\x7f", r"\x1b[31m\x9b\x7f"),
        ("\u202egpj", r"\u202egpj"),
        ("half \udcff", r"half \udcff"),
    ],
)
def test_control_characters_and_line_breaks_are_escaped(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize("step", [257, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("indent", [None, 2])
def test_json_has_no_character_that_a_terminal_obeys_and_the_same_value(indent, step):
    """U+0080 to U+009F were written as they are: U+009B begins a control sequence, as ESC [ does."""
    # By default all that terminals obey, up to the specials at the end of the first plane, and some of the others.
    characters = [chr(number) for number in (*range(0x10000), *range(0x10000, sys.maxunicode + 1, step))]
    value = {"größer 値 🙂": characters[::-1], "\x9b2J": "\u202egpj \udcff"}
    shown = printable_json(value, indent=indent)
    assert json.loads(shown) == value
    assert shown.replace("\n", "").isprintable()
    assert '"größer 値 🙂"' in shown
    assert ("\n" in shown) == (indent is not None)
