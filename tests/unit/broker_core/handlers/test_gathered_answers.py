import pytest

from broker_core.handlers.gathered_answers import GatheredAnswers


def test_the_response_is_sent_with_the_last_result_in_the_order_of_the_keys():
    sent = []
    answers = GatheredAnswers(["b", "a", "b"], sent.append)
    answers.add("a", {"n": 1})
    assert sent == []
    answers.add("b", {"n": 2})
    assert [list(each.items()) for each in sent] == [[("b", {"n": 2}), ("a", {"n": 1})]]


def test_an_empty_request_is_answered_immediately():
    sent = []
    GatheredAnswers([], sent.append)
    assert sent == [{}]


def test_answering_a_key_twice_fails_an_assertion():
    answers = GatheredAnswers(["a", "b"], lambda answer: None)
    answers.add("a", {})
    with pytest.raises(AssertionError, match="'a' was answered twice"):
        answers.add("a", {})
