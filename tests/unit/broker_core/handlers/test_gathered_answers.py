import pytest

from broker_core.handlers.gathered_answers import GatheredAnswers


def test_the_answer_goes_out_with_the_last_one_in_the_order_of_the_keys():
    sent = []
    answers = GatheredAnswers(["b", "a", "b"], sent.append)
    answers.add("a", {"n": 1})
    assert sent == []
    answers.add("b", {"n": 2})
    assert [list(each.items()) for each in sent] == [[("b", {"n": 2}), ("a", {"n": 1})]]


def test_a_request_that_names_nothing_is_answered_at_once():
    sent = []
    GatheredAnswers([], sent.append)
    assert sent == [{}]


def test_answering_one_thing_twice_is_a_mistake():
    answers = GatheredAnswers(["a", "b"], lambda answer: None)
    answers.add("a", {})
    with pytest.raises(AssertionError, match="'a' was answered twice"):
        answers.add("a", {})
