"""Tables, timestamps and bars."""

import re

from broker_core.cli.screen import Column, byte_progress, format_timestamp, show_table


def test_a_timestamp_is_utc_with_milliseconds():
    assert format_timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert format_timestamp(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"


def test_a_missing_timestamp_is_a_dash_and_one_beyond_the_calendar_a_number():
    assert format_timestamp(-1) == "-"
    assert format_timestamp(2**62) == str(2**62)


def test_a_table_in_a_pipe_is_never_cut(capsys):
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


def test_no_digit_is_ever_lost_on_a_narrow_terminal(capsys, monkeypatch):
    a_terminal(monkeypatch, 12)
    show_table([Column(heading="first", is_number=True), Column(heading="second")], [(1234567, "x" * 30), (2, "y")])
    shown = plain(capsys.readouterr().out)
    assert " first  1,234,567\nsecond  " in shown
    assert "x" * 30 in shown.replace("\n", "")


def test_cells_are_shown_as_they_are(capsys):
    show_table([Column(heading="name")], [("[red]not markup[/]",)])
    assert "[red]not markup[/]" in capsys.readouterr().out


def test_progress_into_a_pipe_is_silent(capsys):
    with byte_progress("working", 100) as progress:
        progress.advance(50)
        progress.show(60, 100)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
