"""Random plans, disks that refuse, deaths and restarts: what was acknowledged is in the log, and no client has seen
anything that is then lost."""

import logging
import shutil
import tempfile

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from support.nodes.tally_coordinator import Tallied, Tally, TallyNode
from support.runs.examples import examples

from broker_core.model.exceptions import CoordinatorLoadingError, CoordinatorNotAvailableError

names = st.sampled_from(["a", "b"])
steps = st.one_of(
    st.tuples(st.just("set"), st.lists(names, min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("set"), st.lists(names, min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("look")),
    st.tuples(st.just("work")),
    st.tuples(st.just("work")),
    st.tuples(st.just("finish")),
    st.tuples(st.just("refuse"), st.sampled_from(["write", "sync"]), st.sampled_from([".log", "partition.bounds"])),
    st.tuples(st.just("restart"), st.booleans()),
)


@pytest.fixture(scope="module", autouse=True)
def _no_log_record_is_kept():
    """pytest keeps them until the test is over, and with their exceptions the nodes of all examples and their files."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class TallyWorld:
    """Numbers only ever grow, so a state holds an earlier one if none of its numbers is smaller."""

    def __init__(self, path):
        self.path = path
        self.number = 0
        self.heard = {}
        """What somebody was told: the least that each later state has to hold."""
        self.begin()

    def begin(self):
        self.node = TallyNode(self.path)
        self.state_holds(self.node.peek())

    def state_holds(self, state):
        for name, number in self.heard.items():
            assert state.get(name, 0) >= number, (state, self.heard)

    def hear(self, numbers):
        for name, number in numbers.items():
            self.heard[name] = max(number, self.heard.get(name, 0))

    def set(self, wanted):
        self.number += 1
        records = [Tallied(name, self.number) for name in wanted]

        def done(seen):
            self.hear(seen)
            self.hear({record.name: record.number for record in records})

        self.node.runtime.change(lambda tally: tally.plan_set(*records), done, self.refused)

    def look(self):
        self.node.runtime.look(Tally.look, self.hear, self.refused)

    def refused(self, error):
        assert isinstance(error, CoordinatorLoadingError | CoordinatorNotAvailableError), error

    def do(self, step):
        jobs = self.node.jobs
        match step:
            case ("set", wanted):
                self.set(wanted)
            case ("look",):
                self.look()
            case ("work",):
                if jobs._waiting:
                    jobs.do_next()
            case ("finish",):
                if jobs._working:
                    jobs.finish()
            case ("refuse", kind, ending):
                self.node.fs.refuse(kind, ending)
            case ("restart", is_orderly):
                if is_orderly:
                    jobs.run_all()
                self.node.crash()
                self.begin()


@examples(20)
@given(st.lists(steps, min_size=5, max_size=30))
def test_no_reply_is_sent_for_lost_state(plan):
    folder = tempfile.mkdtemp()
    try:
        world = TallyWorld(folder + "/log")
        world.set(["a"])
        world.node.jobs.run_all()
        for step in plan:
            world.do(step)
        world.node.fs.refuse("write", "nothing of the kind")
        world.node.jobs.run_all()
        world.node.fire_timers(1_000)
        live = world.node.peek()
        event(f"refused {world.node.fs.refused > 0}")
        assert live is not None
        world.state_holds(live)
        world.node.crash()
        again = TallyNode(world.path)
        assert again.peek() == live, "the state is what the log says"
        world.set(["b"])
    finally:
        shutil.rmtree(folder)
