"""An error in one sentence."""

import errno

from broker_core.cli.error_sentence import sentence
from broker_core.model.exceptions import UnknownTopicError


def test_streamlog_errors_are_shown_on_one_line():
    assert sentence(UnknownTopicError("topic 'x'\n does not exist")) == "topic 'x' does not exist"


def test_operating_system_errors_name_the_file():
    assert (
        sentence(FileNotFoundError(errno.ENOENT, "No such file or directory", "/x")) == "/x: No such file or directory"
    )


def test_other_errors_show_their_class():
    assert sentence(MemoryError("too much")) == "MemoryError: too much"
