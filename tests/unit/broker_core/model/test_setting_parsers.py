import pytest

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.setting_parsers import boolean, int_parser, items_of, long_parser, one_of, ratio, set_of


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), (" +7\t", 7), ("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)]
)
def test_numbers_are_parsed_like_java(text, number):
    assert int_parser()("n", text) == number


@pytest.mark.parametrize("text", ["", "1_000", "0x10", "1.0", "2147483648", "-2147483649", "9" * 30])
def test_numbers_that_java_refuses_are_refused(text):
    with pytest.raises(InvalidConfigError, match="Not a number of type INT"):
        int_parser()("n", text)


def test_the_bound_is_allowed_and_one_more_is_refused():
    parse = int_parser(1, 17)
    assert (parse("n", "1"), parse("n", "17")) == (1, 17)
    with pytest.raises(InvalidConfigError, match="Invalid value 0 for configuration n: Value must be at least 1"):
        parse("n", "0")
    with pytest.raises(InvalidConfigError, match="Value must be no more than 17"):
        parse("n", "18")
    assert long_parser()("n", str(2**63 - 1)) == 2**63 - 1
    with pytest.raises(InvalidConfigError, match="LONG"):
        long_parser()("n", str(2**63))


def test_booleans_ratios_choices_and_lists():
    assert (boolean("b", " TRUE "), boolean("b", "false")) == (True, False)
    assert (ratio("r", "0.5f"), ratio("r", "1e-1")) == (0.5, 0.1)
    assert one_of("a", "b")("o", " b ") == "b"
    assert set_of("a", "b")("s", "b, a") == {"a", "b"}
    assert items_of(" a , b ") == ["a", "b"]
    assert items_of("  ") == []


@pytest.mark.parametrize(
    ("parse", "text"),
    [(boolean, "yes"), (ratio, "nan"), (ratio, "1.1"), (ratio, "-0.1"), (one_of("a"), "A"), (set_of("a"), "a,,a")],
)
def test_an_invalid_value_is_refused_with_its_setting_name(parse, text):
    with pytest.raises(InvalidConfigError) as caught:
        parse("the.name", text)
    assert caught.value.setting == "the.name"
