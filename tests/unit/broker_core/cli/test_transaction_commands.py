"""`streamlog transactions …`."""

import pytest
from support.clients.transacting import begin

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition

T0 = TopicPartition("t", 0)


@pytest.fixture
def log(streamlog, log_path):
    """A log with the open transactions app-1 and app-2, and other-1, which was committed."""
    assert streamlog("topic", "create", "t").status == 0
    with open_embedded(log_path) as cluster:
        for name in ("app-1", "app-2", "other-1"):
            producer = begin(cluster, name, T0)
        cluster.end_transaction(producer, commit=True)
    return streamlog


def states(streamlog, *arguments):
    listed = streamlog("transactions", "list", "--json", *arguments).json
    return {t["transactional_id"]: t["state"] for t in listed}


def test_transactions_are_listed_by_prefix_and_by_state(log):
    everything = {"app-1": "Ongoing", "app-2": "Ongoing", "other-1": "CompleteCommit"}
    assert states(log) == everything
    assert states(log, "--prefix", "other") == {"other-1": "CompleteCommit"}
    assert states(log, "--open") == states(log, "--state", "ongoing") == {"app-1": "Ongoing", "app-2": "Ongoing"}
    shown = log("transactions", "list").out.decode()
    assert all(word in shown for word in ("app-1", "Ongoing", "CompleteCommit"))


def test_a_transaction_is_described_with_its_partitions(log):
    described = log("transactions", "describe", "app-1", "--json").json
    assert described["partitions"] == [{"topic": "t", "partition": 0}]
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 60_000)
    assert "t-0" in log("transactions", "describe", "app-1").out.decode()


def test_abort_ends_the_transaction_of_a_dead_writer_and_unblocks_readers(log):
    aborted = log("transactions", "abort", "app-1")
    assert (aborted.status, aborted.err) == (0, "app-1: aborted\n1 transaction aborted\n")
    assert states(log, "--open") == {"app-2": "Ongoing"}
    again = log("transactions", "abort", "app-1", "--json")
    assert (again.status, again.json) == (0, {"aborted": []})


def test_abort_by_prefix_ends_only_open_transactions(log):
    assert log("transactions", "abort", "--prefix", "app-", "--json").json == {"aborted": ["app-1", "app-2"]}
    assert states(log)["other-1"] == "CompleteCommit"


def test_an_unknown_id_is_refused_before_anything_is_aborted(log):
    refused = log("transactions", "abort", "app-1", "nobody")
    assert refused.status == 1
    assert "'nobody'" in refused.err
    assert states(log, "--open").keys() == {"app-1", "app-2"}
    assert "'nobody'" in log("transactions", "describe", "nobody").err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("abort",), "give transactional ids, or --prefix"),
        (("abort", "app-1", "--prefix", "app"), "give transactional ids, or --prefix"),
        (("abort", "--prefix", ""), "--prefix is empty"),
        (("list", "--state", "open"), "--state 'open' is not one of Empty, Ongoing, PrepareCommit"),
        (("list", "--state", "Ongoing", "--open"), "--open and --state exclude each other"),
    ],
)
def test_wrong_usage_is_explained(log, arguments, complaint):
    refused = log("transactions", *arguments)
    assert refused.status == 2
    assert complaint in " ".join(refused.err.split())


def test_a_message_says_that_no_transaction_is_open(log):
    log("transactions", "abort", "app-1", "app-2")
    listed = log("transactions", "list", "--open")
    assert (listed.status, listed.out, listed.err) == (0, b"", "no transaction is open\n")
    assert log("transactions", "list", "--open", "--prefix", "x").err == "no transaction was found\n"


def test_listing_without_transactions_prints_one_sentence(streamlog):
    streamlog("topic", "create", "t")
    listed = streamlog("transactions", "list")
    assert (listed.status, listed.out, listed.err) == (0, b"", "no transaction was found\n")
