import pytest
from golden_data import fingerprint, unpack
from support.clients.transacting import begin, init, write
from support.files.read_only_file_system import ReadOnlyFileSystem

from broker_core.cluster import GroupDescription, GroupOffset, TransactionalProducer
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.exceptions import DirectoryReadOnlyError
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState

T0 = TopicPartition("t", 0)
KEYED, CODECS = TopicPartition("keyed", 0), TopicPartition("codecs", 1)


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("golden")) / "log"


@pytest.fixture
def foreign(golden):
    before = fingerprint(golden)
    with EmbeddedCluster(golden) as opened:
        yield opened
    assert fingerprint(golden) == before


def test_a_real_kafkas_transactions_are_read(foreign):
    """Expected: what the dump of this log says (`tests/conformance` asks Kafka's own tool)."""
    states = {each.transactional_id: each.state for each in foreign.list_transactions()}
    assert states == {
        "golden-0": TransactionState.ONGOING,
        "golden-1": TransactionState.COMPLETE_COMMIT,
        "golden-2": TransactionState.COMPLETE_ABORT,
    }
    found = foreign.describe_transactions(["golden-0", "none"])
    assert found.keys() == {"golden-0"}
    assert found["golden-0"].partitions == (TopicPartition("open-transaction", 0),)
    assert (found["golden-0"].producer_id, found["golden-0"].timeout_ms) == (4, 60_000)
    ongoing = foreign.list_transactions(states=[TransactionState.ONGOING])
    assert [each.transactional_id for each in ongoing] == ["golden-0"]
    assert foreign.list_transactions(prefix="golden-1")[0].transactional_id == "golden-1"


def test_a_real_kafkas_groups_are_read(foreign):
    assert "golden-group" in foreign.list_groups()
    offsets = foreign.fetch_offsets("golden-group")
    assert {partition: each.offset for partition, each in offsets.items()} == {KEYED: 3, CODECS: 5}
    assert foreign.fetch_offsets("golden-group", [KEYED]).keys() == {KEYED}
    assert foreign.fetch_offsets("none") == {}


def test_groups_in_a_real_kafkas_directory_have_an_unknown_state(foreign):
    assert foreign.describe_group("golden-group") == GroupDescription(group_id="golden-group", state=GroupState.UNKNOWN)
    assert foreign.describe_group("none").state is GroupState.DEAD


@pytest.mark.parametrize(
    "change",
    [
        lambda c, p: c.init_producer(),
        lambda c, p: c.init_producer("golden-0"),
        lambda c, p: c.add_partitions_to_transaction(p, [KEYED]),
        lambda c, p: c.commit_offsets_in_transaction(p, "golden-group", {KEYED: GroupOffset(offset=1)}),
        lambda c, p: c.end_transaction(p, commit=True),
        lambda c, p: c.abort_transaction("golden-0"),
        lambda c, p: c.commit_offsets("golden-group", {KEYED: GroupOffset(offset=1)}),
        lambda c, p: c.delete_group("golden-group"),
    ],
)
def test_nothing_is_changed_in_a_real_kafkas_directory(foreign, change):
    producer = TransactionalProducer(transactional_id="golden-0", producer_id=4, producer_epoch=0)
    with pytest.raises(DirectoryReadOnlyError, match="was written by Apache Kafka"):
        change(foreign, producer)


def test_without_write_access_the_state_is_read_as_stored(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True) as cluster:
        cluster.create_topic("t")
        cluster.commit_offsets("group", {T0: GroupOffset(offset=3)})
        write(cluster, begin(cluster, "id", T0, timeout_ms=1), T0, "x")
    with EmbeddedCluster(tmp_path / "log", file_system=ReadOnlyFileSystem()) as reader:
        # It has timed out by now, and no process could end it.
        assert reader.describe_transactions(["id"])["id"].state is TransactionState.ONGOING
        assert reader.fetch_offsets("group")[T0].offset == 3
        with pytest.raises(DirectoryReadOnlyError, match="No write access"):
            reader.abort_transaction("id")


def test_transactions_are_listed_by_prefix_and_state_sorted_by_id(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True) as cluster:
        cluster.create_topic("t")
        for name in ("q-2", "q-1", "other"):
            begin(cluster, name, T0)
        init(cluster, "q-3")
        assert [each.transactional_id for each in cluster.list_transactions(prefix="q-")] == ["q-1", "q-2", "q-3"]
        ongoing = cluster.list_transactions(prefix="q-", states={TransactionState.ONGOING})
        assert [each.transactional_id for each in ongoing] == ["q-1", "q-2"]
        assert cluster.list_transactions(prefix="none") == ()
