"""The expected values are what Kafka 4.3.1 on Java 17 took, refused and showed for min.cleanable.dirty.ratio."""

import math

import pytest

from broker_core.model.java_numbers import read_double, read_whole_number, show_double


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.5F", "0.5"), (".5", "0.5"), ("1.", "1.0"), ("1d", "1.0"), ("1.e-1", "0.1"), ("0.1f", "0.1"), ("-0", "-0.0"),
        ("0.5e+0", "0.5"), ("1e-400", "0.0"), ("1.0000000000000001", "1.0"), (" 0.25 ", "0.25"), ("\x1f0.5", "0.5"),
        ("1e-99999999999", "0.0"), ("1e999999999999", "Infinity"),
        ("NaN", "NaN"), ("+NaN", "NaN"), ("-NaN", "NaN"),
        ("Infinity", "Infinity"), ("+Infinity", "Infinity"), ("-Infinity", "-Infinity"),
        ("0x1p-1", "0.5"), ("0X1P-1f", "0.5"), ("0x.8p0", "0.5"), ("0x1.p-1", "0.5"), ("+0x1p-1", "0.5"),
        ("0x1p-1d", "0.5"), ("0x1.8p-1D", "0.75"), ("0x1p-1 ", "0.5"), ("-0x0p0", "-0.0"), ("0x1p1074", "Infinity"),
        ("-0x1p1074", "-Infinity"), ("0x1p-9999999999", "0.0"), ("0x1.fffffffffffff8p-1", "1.0"),
        ("0x0.000000000000000000000000000000001p128", "0.0625"),
    ],
)  # fmt: skip
def test_a_double_is_read_and_shown_as_java_does(text, shown):
    assert show_double(read_double(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "e1", "1e", "1_0", "1_0e-2", "- 0.5", "0.5 f", "0.5ff", "nan", "NaNf", "inf", "Infinityd", "INFINITY",
        "0x1", "0xp1", "0x.p1", "0x1p", "0x_1p-1", "0x1p-1_0", "0x1p\u0663", "\u0660.5", "\u00a00.5", "\u20030.5",
    ],
)  # fmt: skip
def test_what_java_does_not_read_is_no_double(text):
    assert read_double(text) is None


def test_each_nan_is_the_same_object_so_that_equal_settings_are_equal():
    assert (read_double("NaN"),) == (read_double("-NaN"),) and read_double("NaN") is math.nan


@pytest.mark.parametrize(("text", "number"), [("\u0663", 3), ("\uff11\uff12", 12), (" +007\t", 7), ("-0", 0)])
def test_a_whole_number_may_have_the_digits_of_any_script(text, number):
    assert read_whole_number(text) == number


@pytest.mark.parametrize("text", ["\U0001d7d3", "0x10", "5L", "1_000", "--5", "+", "\u00a05", "1" * 5000])
def test_what_java_does_not_read_is_no_whole_number(text):
    assert read_whole_number(text) is None
