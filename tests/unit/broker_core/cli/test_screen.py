"""Tables, timestamps and bars."""

import re

import pytest

from broker_core.cli.screen import (
    Column,
    byte_progress,
    counted,
    format_duration,
    format_timestamp,
    note,
    show_table,
)


def test_a_timestamp_is_utc_with_milliseconds():
    assert format_timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert format_timestamp(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"


def test_a_missing_timestamp_is_a_dash_and_one_outside_the_calendar_a_number():
    assert format_timestamp(-1) == "-"
    assert format_timestamp(2**62) == str(2**62)


def test_a_table_in_a_pipe_is_never_truncated(capsys):
    long_name = "x" * 300
    show_table([Column(heading="name"), Column(heading="count", is_number=True)], [(long_name, 1234567)])
    shown = capsys.readouterr().out
    assert long_name in shown
    assert "1,234,567" in shown


def a_terminal(monkeypatch, columns):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


TABLE = [Column(heading="count", is_number=True), Column(heading="settings", is_long=True)]


def test_on_a_terminal_the_long_column_is_folded(capsys, monkeypatch):
    a_terminal(monkeypatch, 40)
    show_table(TABLE, [(1234567, "a=b, " * 20)])
    lines = plain(capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 40
    assert any("1,234,567" in line for line in lines)


def test_no_digit_is_lost_on_a_narrow_terminal(capsys, monkeypatch):
    a_terminal(monkeypatch, 12)
    show_table([Column(heading="first", is_number=True), Column(heading="second")], [(1234567, "x" * 30), (2, "y")])
    shown = plain(capsys.readouterr().out)
    assert " first  1,234,567\nsecond  " in shown
    assert "x" * 30 in shown.replace("\n", "")


def test_names_and_headings_are_whole_in_a_table_and_in_the_block_layout(capsys, monkeypatch):
    # They were cut to `orders.e` and `partitio`: with headings of two words the table was thought to fit.
    columns = [Column(heading="partition"), Column(heading="segments\ndeleted", is_number=True)]
    for width in range(10, 60):
        a_terminal(monkeypatch, width)
        show_table(columns, [("orders.events-0", 12345)])
        lines = plain(capsys.readouterr().out).splitlines()
        if width >= len("orders.events-0") + 2 + len("segments"):
            assert [line.rstrip() for line in lines[:2]] == [" " * 17 + "segments", "partition" + " " * 9 + "deleted"]
            assert lines[-1] == "orders.events-0    12,345"
            assert max(map(len, lines)) <= width
        else:
            assert "segments deleted  12,345" in " ".join("\n".join(lines).split(" ")).replace("\n", " ")
            assert "partition  orders.events-0" in "".join(lines)


def test_counts_are_pluralized():
    assert [counted(number, "place") for number in (0, 1, 2, 1000)] == [
        "0 places",
        "1 place",
        "2 places",
        "1,000 places",
    ]


def test_cells_are_shown_unchanged(capsys):
    show_table([Column(heading="name")], [("[red]not markup[/]",)])
    assert "[red]not markup[/]" in capsys.readouterr().out


def test_control_sequences_are_escaped_in_cells_and_notes(capsys):
    show_table([Column(heading="name")], [("a\nb\x1b[1m\x9b\u202e",)])
    assert capsys.readouterr().out.splitlines()[-1].strip() == r"a\nb\x1b[1m\x9b\u202e"
    note("of a\r\nb\x1b[1m")
    assert capsys.readouterr().err == "of a\\r\\nb\\x1b[1m\n"


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0.0 s"),
        (1_500, "1.5 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (3_600_000, "1 h 0 min"),
        (86_399_999, "23 h 59 min"),
        (896_873_400, "10 d 9 h"),
        (1_700_000_000_000, "19,675 d 22 h"),
    ],
)
def test_a_duration_is_shown_in_its_two_largest_units(duration_ms, text):
    assert format_duration(duration_ms) == text


def test_progress_into_a_pipe_is_silent(capsys):
    with byte_progress("working", 100) as progress:
        progress.advance(50)
        progress.show(60, 100)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
