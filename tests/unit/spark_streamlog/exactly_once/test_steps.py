"""Steps are log lines: with fields, quiet unless asked for."""

import logging

from support.spark.sink_actors import steps

from spark_streamlog.exactly_once.steps import Step, log_step, logger


def test_a_step_is_a_log_line_with_its_ids_as_fields(caplog):
    with caplog.at_level(logging.DEBUG, logger=logger.name):
        log_step(Step.DECIDED, batch=7, driver_id="q-driver")
        log_step(Step.TASK_MAY_WRITE, transactional_id="q-0-0")
    decided, may_write = caplog.records
    assert decided.getMessage() == "decided: batch=7 driver_id=q-driver"
    assert (decided.step, decided.ids) == (Step.DECIDED, {"batch": 7, "driver_id": "q-driver"})
    assert (decided.levelno, may_write.levelno) == (logging.INFO, logging.DEBUG)


def test_no_text_is_formatted_without_a_listener(caplog):
    class Unasked:
        def __str__(self):
            raise AssertionError("this text was not needed")

    with caplog.at_level(logging.WARNING, logger=logger.name):
        log_step(Step.DECIDED, batch=Unasked())
    assert not caplog.records


def test_a_logging_handler_can_follow_the_steps():
    with steps() as seen:
        log_step(Step.PLANNING)
        log_step(Step.PLANNED)
    assert seen.seen == [Step.PLANNING, Step.PLANNED]


def test_each_step_has_a_unique_text():
    assert len({step.value for step in Step}) == len(Step)
