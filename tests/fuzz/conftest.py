"""Fixtures of the fuzzing suites."""

import gc

import pytest


@pytest.fixture(scope="module")
def frozen_heap():
    """For tests that collect garbage again and again, so that the locks of a dead process go: what is there before
    them need not be looked at each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
