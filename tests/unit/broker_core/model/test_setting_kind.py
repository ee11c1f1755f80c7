import pytest

from broker_core.model.setting_kind import SettingKind, shown_value


# The right-hand sides are what Kafka 4.3.1's DescribeConfigs told of the left ones.
@pytest.mark.parametrize(
    ("kind", "typed", "told"),
    [
        (SettingKind.BOOLEAN, " TRUE ", "true"),
        (SettingKind.INT, "+05", "5"),
        (SettingKind.INT, "-0", "0"),
        (SettingKind.SHORT, "030", "30"),
        (SettingKind.LONG, "\uff11\uff12", "12"),
        (SettingKind.DOUBLE, "1", "1.0"),
        (SettingKind.DOUBLE, "-0.0", "-0.0"),
        (SettingKind.DOUBLE, "0.001", "0.001"),
        (SettingKind.DOUBLE, "1E-5", "1.0E-5"),
        (SettingKind.DOUBLE, "12345678", "1.2345678E7"),
        (SettingKind.DOUBLE, "1e10", "1.0E10"),
        (SettingKind.DOUBLE, "1.7976931348623157E308", "1.7976931348623157E308"),
        (SettingKind.DOUBLE, "1e-400", "0.0"),
        (SettingKind.DOUBLE, "NaN", "NaN"),
        (SettingKind.LIST, " a ,b,a", "a,b"),
        (SettingKind.LIST, "  ", ""),
        (SettingKind.STRING, " lz4", "lz4"),
        (SettingKind.CLASS, " a.B ", "a.B"),
        (SettingKind.PASSWORD, "secret", None),
        (SettingKind.UNKNOWN, "whatever", None),
    ],
)
def test_a_value_is_shown_as_parsed(kind, typed, told):
    assert shown_value(kind, typed) == told


# Java's Double.toString changes its form at these numbers.
@pytest.mark.parametrize(
    ("number", "told"),
    [("0.00099", "9.9E-4"), ("0.001", "0.001"), ("9999999", "9999999.0"), ("1e7", "1.0E7"), ("-2.5e-7", "-2.5E-7")],
)
def test_small_and_large_numbers_are_shown_with_an_exponent(number, told):
    assert shown_value(SettingKind.DOUBLE, number) == told


def test_a_list_may_keep_its_duplicates():
    assert shown_value(SettingKind.LIST, "1:1 , 1:1", keeps_duplicates=True) == "1:1,1:1"


@pytest.mark.parametrize("kind", [SettingKind.INT, SettingKind.DOUBLE])
def test_an_invalid_value_is_shown_unchanged(kind):
    assert shown_value(kind, " soon ") == " soon "
