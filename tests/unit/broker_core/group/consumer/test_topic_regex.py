import time

import pytest

from broker_core.group.consumer.topic_regex import matches, refusal_of_regex


def test_a_regex_must_match_the_whole_name():
    assert matches("orders-.*", "orders-eu")
    assert not matches("orders", "orders-eu")
    assert matches("(^a|b$)", "a")


@pytest.mark.parametrize("regex", ["(", "a**", "(?!x)a", "x{2000}", "(?<=a)b", "a\ud800"])
def test_syntax_that_re2_lacks_is_refused_and_matches_nothing(regex):
    assert regex in refusal_of_regex(regex)
    assert not matches(regex, "a")


@pytest.mark.parametrize("regex", ["", ".*", r"\Qa.b\E", "(?i)A", "(?P<name>a)", r"\p{Greek}+"])
def test_syntax_of_re2_is_accepted(regex):
    assert refusal_of_regex(regex) is None


def test_a_regex_with_exponential_backtracking_matches_in_linear_time():
    began = time.process_time()
    assert not matches("(a+)+(b+)+c", "a" * 120 + "b" * 120)
    assert time.process_time() - began < 1


def test_a_regex_too_large_to_compile_is_refused():
    assert refusal_of_regex("((a{100}){100}){100}")
