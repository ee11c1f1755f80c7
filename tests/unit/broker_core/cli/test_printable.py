"""Text of others, made harmless."""

import pytest

from broker_core.cli.printable import printable


@pytest.mark.parametrize("text", ["", "plain", "größer 値 🙂", "[red]", "back\\slash"])
def test_what_can_be_seen_stays_as_it_is(text):
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
def test_what_moves_a_terminal_or_breaks_a_line_is_an_escape(text, shown):
    assert printable(text) == shown
