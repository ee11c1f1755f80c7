import time

import pytest

from broker_core.group.consumer.topic_regex import matches, refusal_of_regex


def test_the_whole_name_must_match():
    assert matches("orders-.*", "orders-eu")
    assert not matches("orders", "orders-eu")
    assert matches("(^a|b$)", "a")


@pytest.mark.parametrize("regex", ["(", "a**", "(?!x)a", "x{2000}", "(?<=a)b", "a\ud800"])
def test_what_re2_does_not_know_is_refused_and_matches_nothing(regex):
    assert regex in refusal_of_regex(regex)
    assert not matches(regex, "a")


@pytest.mark.parametrize("regex", ["", ".*", r"\Qa.b\E", "(?i)A", "(?P<name>a)", r"\p{Greek}+"])
def test_what_re2_knows_is_accepted(regex):
    assert refusal_of_regex(regex) is None


def test_an_expression_that_backtracking_would_never_finish_is_done_at_once():
    began = time.perf_counter()
    assert not matches("(a+)+(b+)+c", "a" * 120 + "b" * 120)
    assert time.perf_counter() - began < 1


def test_an_expression_too_large_to_compile_is_refused():
    assert refusal_of_regex("((a{100}){100}){100}")
