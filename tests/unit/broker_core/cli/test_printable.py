"""Text of others, made harmless."""

import pytest

from broker_core.cli.printable import printable


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
