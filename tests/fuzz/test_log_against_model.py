"""A log does what a Python list of records does: whatever is done to it, in any order, from several handles."""

from __future__ import annotations

import pytest
from fuzz.process_machine import ProcessMachine
from fuzz.store_machine import StoreMachine
from hypothesis import HealthCheck, Phase, settings

QUIET = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
SHORT = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=QUIET,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # making a failure small takes minutes: for long
)
LONG = settings(SHORT, max_examples=3000, stateful_step_count=60, derandomize=False, phases=tuple(Phase))
FEW = settings(SHORT, max_examples=4, stateful_step_count=25)


class TestStoresOverOneDisk(StoreMachine.TestCase):
    """A log is a list of records, for several stores that learn of each other from the files."""

    settings = SHORT


class TestProcessesOverOneDirectory(ProcessMachine.TestCase):
    """A log is a list of records, for several processes at work in one directory."""

    settings = FEW


@pytest.mark.long
@pytest.mark.timeout(3600)
class TestStoresOverOneDiskForLong(StoreMachine.TestCase):
    settings = LONG


@pytest.mark.long
@pytest.mark.timeout(3600)
class TestProcessesOverOneDirectoryForLong(ProcessMachine.TestCase):
    settings = settings(LONG, max_examples=200)
