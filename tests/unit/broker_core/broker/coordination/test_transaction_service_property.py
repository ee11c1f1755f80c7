"""No transaction is left hanging: whatever is asked in whatever order, and however slowly disks answer, no record of a
transaction lies behind the marker that ends it, and each one is ended."""

import shutil
import tempfile

from hypothesis import event, given
from hypothesis import strategies as st
from support.nodes.transaction_node import TV1, TV2, TransactionNode
from support.runs.examples import examples

PARTITIONS = (0, 1)
producers = st.sampled_from(["a", "b"])
steps = st.one_of(
    st.tuples(st.just("produce"), producers, st.sampled_from(PARTITIONS)),
    st.tuples(st.just("produce"), producers, st.sampled_from(PARTITIONS)),
    st.tuples(st.just("end"), producers, st.booleans()),
    st.tuples(st.just("take over"), producers),
    st.tuples(st.just("pass"), st.sampled_from([10, 2_000, 12_000])),
    st.tuples(st.just("work"), st.integers(1, 4)),
    st.tuples(st.just("work"), st.integers(1, 4)),
    st.tuples(st.just("finish"), st.integers(0, 2)),
    st.tuples(st.just("refuse"), st.sampled_from(["orders-0", "orders-1", "__transaction_state-0"])),
    st.tuples(st.just("die")),
)


class TransactionalClient:
    """One producer instance. It does not wait for answers before it goes on, as no good client would do."""

    def __init__(self, world, name, versions):
        self.world, self.name, self.versions = world, name, versions
        self.producer = None
        self.sequences = {}

    def open(self):
        node = self.world.node
        for _ in range(20):
            answer = node.init(self.name, self.versions["init"], timeout_ms=5_000)
            if answer[0] == "none":
                self.producer, self.sequences = answer[1:], {}
                return
            node.pass_ms(1_000)
        raise AssertionError(answer)

    def produce(self, number):
        node, value = self.world.node, b"%s-%d" % (self.name.encode(), self.world.next_number())
        if self.versions is TV1:
            node.send_add(self.producer, number, transactional_id=self.name)
        sequence = self.sequences.get(number, 0)
        self.sequences[number] = sequence + 1
        node.send_produce(
            self.producer,
            sequence,
            number=number,
            transactional_id=self.name,
            version=self.versions["produce"],
            value=value,
        )
        event("produce")

    def end(self, commit):
        answers = self.world.node.send_end(self.producer, commit, self.name, self.versions["end"])
        self.world.watched.append((answers, self, self.producer))


class TransactionWorld:
    def __init__(self, path, versions):
        self.path = path
        self.number = 0
        self.clock = None
        self.watched = []
        self.node = self.start()
        self.clients = {name: TransactionalClient(self, name, versions) for name in ("a", "b")}
        for client in self.clients.values():
            client.open()

    def start(self):
        node = TransactionNode(self.path, clock=self.clock)
        self.clock = node.clock
        return node

    def next_number(self):
        self.number += 1
        return self.number

    def learn(self):
        """What clients of version 2 do with the answer to an end: they go on as whom it says."""
        for answers, client, producer in self.watched:
            if answers and client.versions is TV2 and client.producer == producer:
                event(f"end: {answers[0].error_code.name}")
                if answers[0].error_code.name == "none":
                    client.producer = answers[0].producer_id, answers[0].producer_epoch
                    client.sequences = {}
        self.watched = [each for each in self.watched if not each[0]]

    def do(self, step):
        node, jobs = self.node, self.node.jobs
        match step:
            case ("produce", name, number):
                self.clients[name].produce(number)
            case ("end", name, commit):
                self.clients[name].end(commit)
            case ("take over", name):
                jobs.run_all()
                self.clients[name].open()
            case ("pass", duration_ms):
                self.clock.ms += duration_ms
                node.node.on_time(self.clock.ms)
            case ("work", count):
                for _ in range(count):
                    if jobs._waiting:
                        jobs.do_next()
            case ("finish", slot):
                if jobs._working:
                    jobs.finish(min(slot, len(jobs._working) - 1))
            case ("refuse", folder):
                node.fs.refuse("sync", f"{folder}/00000000000000000000.log")
            case ("die",):
                node.node.abandon()
                self.watched = []
                self.node = self.start()
                for client in self.clients.values():
                    client.open()
        self.learn()

    def settle(self):
        self.node.fs.refuse("sync", "nothing of the kind")
        self.node.jobs.run_all()
        for _ in range(4):
            self.node.pass_ms(11_000)


def ends_of(log, producer_id):
    """The log of one producer as (records, is_commit) of each of its transactions; what is open, with None."""
    found, records = [], []
    for entry in log:
        if entry[0] != producer_id:
            continue
        if isinstance(entry[2], bool):
            found.append((records, entry[2]))
            records = []
        else:
            records.append(entry[2])
    return [*found, (records, None)] if records else found


def run(versions, plan):
    folder = tempfile.mkdtemp()
    try:
        world = TransactionWorld(folder + "/log", versions)
        for step in plan:
            world.do(step)
        world.settle()
        node = world.node
        for name in ("a", "b"):
            assert node.state(name)[0] in {"Empty", "CompleteCommit", "CompleteAbort"}
        for number in PARTITIONS:
            assert node.open_producers(number) == set(), "nothing can end it any more"
            for producer_id in {entry[0] for entry in node.log(number)}:
                epochs = [entry[1] for entry in node.log(number) if entry[0] == producer_id]
                assert epochs == sorted(epochs), "a record of a fenced epoch lies behind its marker"
                assert all(is_commit is not None for _, is_commit in ends_of(node.log(number), producer_id))
    finally:
        shutil.rmtree(folder)


@examples(10)
@given(st.lists(steps, min_size=10, max_size=40))
def test_no_transaction_of_a_newer_client_is_left_hanging(plan):
    run(TV2, plan)


@examples(10)
@given(st.lists(steps, min_size=10, max_size=40))
def test_no_transaction_of_an_older_client_is_left_hanging(plan):
    run(TV1, plan)
