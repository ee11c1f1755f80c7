"""The checker finds each anomaly, and nothing where there is none."""

import pytest

from chaos.checker import anomalies, differing_replicas
from chaos.workload import Seen


def a_run(*, acked=("p0-0", "p0-1"), transactions=(), polled=(0, 1), committed=2):
    seen = Seen()
    seen.acked[0] = list(acked)
    seen.polled[0] = set(polled)
    seen.committed[0] = committed
    for members, fate in transactions:
        seen.transactions[members[0]] = (list(members), fate)
    return seen


def a_log(*values):
    return {0: list(enumerate(values))}


GOOD = a_log("p0-0", "p0-1")
MEMBERS = ("t-0-0", "t-0-1")


def test_a_run_without_an_anomaly_has_none():
    seen = a_run(transactions=[(MEMBERS, "committed"), (("t-1-0", "t-1-1"), "aborted"), (("t-2-0",), "unknown")])
    assert anomalies(seen, GOOD, a_log(*MEMBERS)) == []


@pytest.mark.parametrize(
    ("log", "what"),
    [
        (a_log("p0-0"), "lost write"),
        (a_log("p0-0", "p0-1", "p0-1"), "duplicate"),
        (a_log("p0-1", "p0-0"), "reordered"),
    ],
)
def test_each_anomaly_of_a_producer_is_found(log, what):
    (found,) = [each.partition(":")[0] for each in anomalies(a_run(committed=0), log, {})]
    assert found == what


@pytest.mark.parametrize(
    ("fate", "visible", "what"),
    [
        ("committed", (), "lost write"),
        ("committed", ("t-0-0",), "lost write"),
        ("aborted", MEMBERS, "aborted read"),
        ("unknown", ("t-0-1",), "torn transaction"),
        ("committed", (*MEMBERS, "t-0-1"), "duplicate"),
    ],
)
def test_each_anomaly_of_a_transaction_is_found(fate, visible, what):
    found = anomalies(a_run(transactions=[(MEMBERS, fate)]), GOOD, a_log(*visible))
    assert [each.partition(":")[0] for each in found] == [what]


def test_an_offset_that_was_committed_and_given_to_no_member_is_found():
    assert anomalies(a_run(polled=(1,)), GOOD, {}) == ["skipped poll: 1 offsets below 2 in partition 0"]


def test_replicas_that_differ_by_a_byte_are_found(tmp_path):
    for number, content in enumerate((b"same", b"same", b"sane")):
        folder = tmp_path / str(number) / "t-0"
        folder.mkdir(parents=True)
        (folder / "00000000000000000000.log").write_bytes(content)
    paths = [tmp_path / str(number) for number in range(3)]
    assert differing_replicas(paths[:2], ["t"], 1) == []
    assert differing_replicas(paths, ["t"], 1) == ["replicas differ: t-0 has 4, 4, 4 bytes"]
