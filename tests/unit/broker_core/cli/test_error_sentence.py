"""An error in one sentence."""

import errno

from broker_core.cli.error_sentence import sentence
from broker_core.model.exceptions import UnknownTopicError


def test_our_own_errors_speak_for_themselves_on_one_line():
    assert sentence(UnknownTopicError("topic 'x'\n does not exist")) == "topic 'x' does not exist"


def test_the_operating_systems_errors_name_the_file():
    assert (
        sentence(FileNotFoundError(errno.ENOENT, "No such file or directory", "/x")) == "/x: No such file or directory"
    )


def test_anything_else_says_its_kind():
    assert sentence(MemoryError("too much")) == "MemoryError: too much"
