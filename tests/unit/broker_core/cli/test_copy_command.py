"""`streamlog log copy`, and how it is told where the logs are."""

import json

import pytest
from golden_data import consumer_saw, unpack
from support.builders.builders import a_batch
from support.builders.committed_rows import committed_rows
from support.builders.copy_places import KEEPS
from support.clients.transacting import begin, write

from broker_core.cli.copy_places import open_place
from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.identifiers import TopicPartition


@pytest.fixture
def source_path(tmp_path):
    """Two topics of a partition each, and a group."""
    path = tmp_path / "source"
    with EmbeddedCluster(path, create=True) as cluster:
        for name, count in (("orders", 3), ("other", 2)):
            cluster.create_topic(name, configs=KEEPS)
            cluster.append(TopicPartition(name, 0), a_batch(count))
        cluster.commit_offsets("g", {TopicPartition("orders", 0): GroupOffset(offset=2)})
    return path


@pytest.fixture
def copy(streamlog, source_path, tmp_path):
    """`copy(*options)` from the source to a directory, or `to` another place."""

    def call(*options, to=None):
        return streamlog("log", "copy", source_path, to or tmp_path / "target", *options, with_path=False)

    return call


def topics_in(path):
    with EmbeddedCluster(path) as cluster:
        names = [name for name, topic in cluster.describe_topics().items() if not topic.is_internal]
        return {name: len(committed_rows(cluster, name)) for name in names}


def test_all_topics_are_copied_and_counted(copy, tmp_path):
    done = copy()
    assert (done.status, done.out) == (0, b"")
    assert done.err.startswith("copied 5 records (") and done.err.endswith(" bytes) of 2 topics\n")
    assert topics_in(tmp_path / "target") == {"orders": 3, "other": 2}
    assert copy().err == "copied 0 records (0 bytes) of 2 topics\n"


@pytest.mark.parametrize("options", [("--topic", "orders"), ("--topic", "ord*"), ("--topic", "?????s")])
def test_topics_are_chosen_by_name_or_pattern(copy, tmp_path, options):
    assert copy(*options).status == 0
    assert topics_in(tmp_path / "target") == {"orders": 3}


def test_a_topic_that_is_not_there_is_an_error_and_nothing_is_made(copy, tmp_path):
    done = copy("--topic", "orders", "--topic", "nothing*")
    assert (done.status, done.err) == (1, "streamlog: no topic of the source is called 'nothing*'\n")
    assert not (tmp_path / "target").exists()


def test_a_dry_run_shows_what_is_to_do_and_makes_nothing(copy, tmp_path):
    rows = copy("--dry-run").lines
    assert [row.split() for row in rows[-2:]] == [
        [b"orders-0", b"0", b"3", b"3", b"0"],
        [b"other-0", b"0", b"2", b"2", b"0"],
    ]
    assert copy("--dry-run", "--json").json[0] == {
        "topic": "orders",
        "partition": 0,
        "from_offset": 0,
        "until_offset": 3,
        "target_offset": 0,
        "blocked_offsets": 0,
    }
    assert not (tmp_path / "target").exists()


def test_groups_come_with_them_if_asked(copy, tmp_path):
    assert copy("--groups").err.endswith("of 2 topics, and the offsets of 1 group\n")
    with EmbeddedCluster(tmp_path / "target") as cluster:
        assert cluster.fetch_offsets("g")[TopicPartition("orders", 0)].offset == 2


def test_json_tells_every_partition(copy, tmp_path):
    found = copy("--json", "--groups").json
    assert found["groups"] == ["g"]
    assert [(one["topic"], one["records"], one["target_end_offset"]) for one in found["partitions"]] == [
        ("orders", 3, 3),
        ("other", 2, 2),
    ]


def test_a_later_run_says_where_it_goes_on_and_what_an_open_transaction_blocks(copy, source_path, tmp_path):
    copy()
    partition = TopicPartition("orders", 0)
    with EmbeddedCluster(source_path) as cluster:
        cluster.append(partition, a_batch(2))
        write(cluster, begin(cluster, "x", partition), partition, "open")
    assert copy().err.splitlines() == [
        "orders-0 goes on at offset 3 of 5",
        "copied 2 records (99 bytes) of 2 topics",
        "orders-0: stopped at offset 5, the first of an open transaction; 1 offset from there on can be copied when it"
        " has ended",
    ]
    assert topics_in(tmp_path / "target")["orders"] == 5


def test_a_broker_takes_it_and_its_address_is_enough(copy, source_path, streamlog_broker, tmp_path):
    place = f"127.0.0.1:{streamlog_broker.bootstrap_servers.rpartition(':')[2]}"
    assert copy(to=place).status == 0
    with open_place(place, None, config_option="") as cluster, EmbeddedCluster(source_path) as source:
        assert committed_rows(cluster, "orders") == committed_rows(source, "orders")


def test_gaps_to_a_broker_are_refused_in_one_sentence(copy, source_path, streamlog_broker):
    with EmbeddedCluster(source_path) as cluster:
        cluster.delete_records(TopicPartition("orders", 0), 1)
    done = copy(to=streamlog_broker.bootstrap_servers)
    assert done.status == 1
    copied, refused = done.err.splitlines()
    assert copied.endswith(" of 1 topic")
    assert refused.startswith("streamlog: topic 'orders' was not copied: orders-0 has gaps between offsets 0 and 1: ")
    assert "--renumber" in refused
    done = copy("--renumber", to=streamlog_broker.bootstrap_servers)
    assert done.err.startswith("copied 2 records") and done.err.endswith("; 2 partitions with new offsets\n")


def test_topics_that_cannot_be_copied_are_named_behind_the_others_and_the_exit_code_is_1(copy, tmp_path):
    with EmbeddedCluster(tmp_path / "target", create=True) as cluster:
        cluster.create_topic("orders", partition_count=2)
    why = "Topic 'orders' has 2 partitions in the target and 1 in the source: it is not a copy of it."
    done = copy("--json", "--groups")
    assert done.status == 1
    assert done.err.startswith(f"streamlog: topic 'orders' was not copied: {why}")
    assert topics_in(tmp_path / "target") == {"orders": 0, "other": 2}
    found = json.loads(done.out)
    assert [one["topic"] for one in found["partitions"]] == ["other"]
    assert [one["topic"] for one in found["failures"]] == ["orders"]
    dry = copy("--dry-run")
    assert (dry.status, dry.lines[-1].split()[0]) == (1, b"other-0")
    assert dry.err.startswith(f"streamlog: topic 'orders' was not copied: {why}")


@pytest.mark.parametrize("spell", [str, "{}/".format, "file://{}".format, "{}/../source".format])
def test_a_log_is_not_copied_onto_itself_however_it_is_spelled(copy, source_path, spell):
    done = copy(to=spell(source_path))
    assert done.status in (1, 2) and " are the same log" in done.err
    with EmbeddedCluster(source_path) as cluster:
        assert cluster.list_groups() == ("g",)


def test_an_object_log_is_not_copied_onto_itself_by_another_url(streamlog, source_path, tmp_path):
    url = f"objects://{tmp_path}/objects"
    assert streamlog("log", "copy", source_path, url, with_path=False).status == 0
    (tmp_path / "link").symlink_to(tmp_path / "objects")
    done = streamlog("log", "copy", url, f"objects://{tmp_path}/link", with_path=False)
    assert done.status == 1 and " are the same log" in done.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--groups", "--renumber"), "--groups and --renumber exclude each other"),
        (("--to-config", "x"), "--to-config needs brokers or the URL of an object store"),
        (("--from-config", "x"), "--from-config needs brokers or the URL of an object store"),
    ],
)
def test_options_that_do_not_fit_are_refused(copy, options, why):
    done = copy(*options)
    assert done.status == 2 and why in done.err


def test_other_urls_are_refused(copy):
    done = copy(to="ftp://host/log")
    assert done.status == 2 and "give a directory, the URL of an object store, or HOST:PORT" in done.err


def test_a_missing_source_is_named(streamlog, tmp_path):
    done = streamlog("log", "copy", tmp_path / "nowhere", tmp_path / "target", with_path=False)
    assert done.status == 1 and f"{tmp_path}/nowhere" in done.err


def test_a_real_kafkas_directory_goes_to_objects_and_back_record_for_record(streamlog, tmp_path):
    golden = unpack(tmp_path)
    on_objects, back = f"objects://{tmp_path}/objects", tmp_path / "back"
    assert streamlog("log", "copy", golden / "log", on_objects, with_path=False).status == 0
    assert streamlog("log", "copy", on_objects, back, with_path=False).status == 0
    for place in (on_objects, str(back)):
        with open_place(place, None, config_option="") as cluster:
            for (topic, number), records in consumer_saw(golden, "read_committed").items():
                rows = [row for row in committed_rows(cluster, topic) if row["partition"] == number]
                assert [
                    (row["offset"], round(row["timestamp"].timestamp() * 1000), row["timestampType"]) for row in rows
                ] == [(record.offset, record.timestamp_ms, record.timestamp_type) for record in records]
                assert [(row["key"], row["value"]) for row in rows] == [
                    (record.key, record.value) for record in records
                ]
                assert [tuple((h["key"], h["value"]) for h in row["headers"] or ()) for row in rows] == [
                    record.headers or () for record in records
                ]
    assert streamlog("log", "verify", "--path", back, with_path=False).status == 0
