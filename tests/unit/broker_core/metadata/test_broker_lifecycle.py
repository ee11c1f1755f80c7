"""A broker's life at the controller. Expected values are what a real Kafka 4.3.1 controller answered."""

import pytest
from kio.schema.errors import ErrorCode

from broker_core.metadata.broker_lifecycle import (
    REFUSED_FOR_GOOD,
    BrokerLifecycle,
    LifecycleHeartbeat,
    LifecycleState,
    Registration,
)

NONE = ErrorCode.none


def a_lifecycle(**others):
    return BrokerLifecycle(
        previous_broker_epoch=others.pop("previous", -1), heartbeat_interval_ms=2000, registration_pause_ms=500,
        fenced_interval_ms=100, **others,
    )  # fmt: skip


def registered(epoch=67):
    lifecycle = a_lifecycle()
    lifecycle.on_registered(NONE, epoch, 0)
    return lifecycle


def running():
    lifecycle = registered()
    lifecycle.on_heartbeat(NONE, is_fenced=False, should_shut_down=False, now_ms=0)
    return lifecycle


def test_it_registers_with_the_epoch_that_its_directory_had():
    assert a_lifecycle(previous=12).next_request(0, metadata_offset=-1) == Registration(previous_broker_epoch=12)


def test_while_the_session_of_the_process_before_lasts_it_tries_again():
    lifecycle = a_lifecycle()
    lifecycle.on_registered(ErrorCode.duplicate_broker_registration, -1, 0)
    assert lifecycle.next_request(499, metadata_offset=-1) is None
    assert isinstance(lifecycle.next_request(500, metadata_offset=-1), Registration)


def test_after_the_registration_heartbeats_come_at_once_and_often_until_it_is_unfenced():
    lifecycle = registered(67)
    heartbeat = LifecycleHeartbeat(broker_epoch=67, metadata_offset=66, wants_shutdown=False)
    assert lifecycle.next_request(0, metadata_offset=66) == heartbeat
    lifecycle.on_heartbeat(NONE, is_fenced=True, should_shut_down=False, now_ms=0)
    assert (lifecycle.state, lifecycle.next_request_ms) == (LifecycleState.FENCED, 100)
    lifecycle.on_heartbeat(NONE, is_fenced=False, should_shut_down=False, now_ms=100)
    assert (lifecycle.state, lifecycle.next_request_ms) == (LifecycleState.RUNNING, 2100)


def test_a_broker_that_is_fenced_again_says_so_and_heartbeats_often():
    lifecycle = running()
    lifecycle.on_heartbeat(NONE, is_fenced=True, should_shut_down=False, now_ms=2000)
    assert (lifecycle.state, lifecycle.next_request_ms) == (LifecycleState.FENCED, 2100)


def test_it_goes_when_the_controller_lets_it():
    lifecycle = running()
    lifecycle.stop(500)
    assert lifecycle.next_request(500, metadata_offset=80).wants_shutdown
    lifecycle.on_heartbeat(NONE, is_fenced=False, should_shut_down=False, now_ms=500)
    assert lifecycle.state is LifecycleState.STOPPING
    lifecycle.on_heartbeat(NONE, is_fenced=False, should_shut_down=True, now_ms=600)
    assert (lifecycle.state, lifecycle.refusal) == (LifecycleState.ENDED, None)
    assert lifecycle.next_request(10**6, metadata_offset=80) is None


def test_before_it_is_registered_it_can_go_at_once():
    lifecycle = a_lifecycle()
    lifecycle.stop(0)
    assert lifecycle.state is LifecycleState.ENDED
    lifecycle.on_registered(NONE, 67, 0)
    assert lifecycle.state is LifecycleState.ENDED, "an answer that comes too late"


@pytest.mark.parametrize("state", ["registering", "running", "stopping"])
def test_every_error_is_either_for_good_or_tried_again(state):
    for error in filter(None, ErrorCode):
        lifecycle = a_lifecycle() if state == "registering" else running()
        if state == "stopping":
            lifecycle.stop(0)
        before = lifecycle.state
        if state == "registering":
            lifecycle.on_registered(error, -1, 0)
        else:
            lifecycle.on_heartbeat(error, is_fenced=True, should_shut_down=True, now_ms=0)
        if error in REFUSED_FOR_GOOD:
            assert lifecycle.state is LifecycleState.ENDED, error
            assert error.name in lifecycle.refusal
        else:
            assert (lifecycle.state, lifecycle.refusal) == (before, None), error
            assert lifecycle.next_request(1000, metadata_offset=1) is not None, error


def test_what_ends_a_broker_for_good_is_written_down():
    assert {error.name for error in REFUSED_FOR_GOOD} == {
        "inconsistent_cluster_id", "invalid_registration", "unsupported_version", "cluster_authorization_failed",
        "stale_broker_epoch", "broker_id_not_registered",
    }  # fmt: skip


def test_without_an_answer_it_asks_again_soon():
    lifecycle = running()
    lifecycle.on_no_answer(2000)
    assert lifecycle.next_request_ms == 2100
