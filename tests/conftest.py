"""Fixtures and options that every suite shares."""

import gc
import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

OPEN_DESCRIPTORS = Path("/proc/self/fd")
MAX_LEFT_DESCRIPTORS = 250
"""Of one module: a session, or a broker, that later modules share; and the node of the last example, which lives on in
the log records that pytest keeps until the test is over."""

# A busy machine is no failure: what a property costs is judged by the benches. A quarter of the examples finds most of
# what all of them find; those are for `--hypothesis-profile=thorough`. See support/runs/examples.py.
settings.register_profile("house", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("house")


def pytest_configure():
    """A run in the background of a shell ignores these, and so would every process that a test starts."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getoption("dist") != "loadfile":
        return None
    from support.runs.shared_first_scheduling import SharedFirstScheduling

    return SharedFirstScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Without collections of garbage: thousands of tests are kept, and each collection would look at all of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_addoption(parser):
    parser.addoption(
        "--kafka",
        choices=("ours", "real"),
        default="ours",
        help="which broker the suites of other people's clients talk to; real needs Java and Maven",
    )


def open_files():
    """What each descriptor of this process is open on."""
    found = Counter()
    for each in OPEN_DESCRIPTORS.iterdir():
        try:
            found[os.readlink(each)] += 1
        except FileNotFoundError:  # the listing's own
            continue
    return found


@pytest.fixture(scope="module", autouse=True)
def _leaves_no_descriptors_behind():
    """Twenty thousand of them end the run, in a test that has nothing to do with it."""
    if not OPEN_DESCRIPTORS.exists():
        yield
        return
    before = open_files()
    yield
    # A command of the command line that runs in this process spares all that is alive from collection, dead nodes too.
    gc.unfreeze()
    assert gc.isenabled(), "nothing that a test leaves behind is collected any more"
    if (open_files() - before).total() > MAX_LEFT_DESCRIPTORS:
        gc.collect()  # nodes that a test has killed close their files only when they are collected
        left = open_files() - before
        assert left.total() <= MAX_LEFT_DESCRIPTORS, left.most_common(10)
