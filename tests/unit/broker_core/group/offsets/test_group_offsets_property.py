"""Whatever is committed in whatever order: the state is what the log says, by the plain rule.

The rule: a record counts if it is plain, or if the first marker of its producer behind it commits. Of the records of a
group and partition that count, the last one in the log says what is committed; none, or one that rolls back: nothing.
"""

from hypothesis import given
from hypothesis import strategies as st
from support.nodes.coordinator_runner import ORDERS, OffsetsRunner, refusal_of
from support.runs.examples import examples

from broker_core.cluster import GroupOffset
from broker_core.group.group_records import GroupMetadataRecord, decode_group_record
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.model.retention_pin import pin_metadata, pinned_until_ms

GROUPS = ["g", "h", ""]
PRODUCERS = [1000, 1001]
group_ids = st.sampled_from(GROUPS)
offsets = st.builds(
    GroupOffset,
    offset=st.integers(-1, 9),
    metadata=st.sampled_from(["", "note", "x" * 4097, pin_metadata(1_000_010), pin_metadata(1_000_020)]),
)
requests = st.one_of(
    st.tuples(
        st.just("commit"),
        group_ids,
        st.dictionaries(st.sampled_from(ORDERS), offsets, max_size=3),
        st.sampled_from([-1, *PRODUCERS]),
    ),
    st.tuples(st.just("marker"), st.sampled_from(PRODUCERS), st.booleans()),
    st.tuples(st.just("delete"), group_ids),
    st.tuples(st.just("forget"), st.sampled_from(["orders", "other"])),
)


def ask(runner, request):
    runner.now_ms += 1
    match request:
        case ("commit", group_id, asked, producer_id):
            runner.commit(group_id, asked, producer_id=producer_id)
        case ("marker", producer_id, is_commit):
            runner.mark(producer_id, is_commit=is_commit)
        case ("delete", group_id):
            runner.run(runner.offsets.plan_delete_group(group_id))
        case ("forget", topic):
            runner.run(runner.offsets.plan_forget_topic(topic))


def committed_by_the_rule(log):
    newest = {}
    for at, entry in enumerate(log):
        if len(entry) == 2:
            continue
        key, value, producer_id = entry
        markers = (later[1] for later in log[at:] if len(later) == 2 and later[0] == producer_id)
        if producer_id == -1 or next(markers, False):
            newest[key] = value
    return [decode_group_record(key, value) for key, value in newest.items() if value is not None]


@examples(80)
@given(st.lists(requests, max_size=30))
def test_the_state_matches_a_replay_of_the_log(asked):
    runner = OffsetsRunner()
    for request in asked:
        before, log_before = vars(runner.replayed()), list(runner.log)
        if refusal_of(ask, runner, request) is not None:
            assert runner.log == log_before
            assert vars(runner.offsets) == before
    assert vars(runner.offsets) == vars(runner.replayed())
    expected = {}
    for record in committed_by_the_rule(runner.log):
        value = record.value
        expected.setdefault(record.group_id, {})[record.partition] = GroupOffset(
            offset=value.offset,
            metadata=value.metadata,
            leader_epoch=value.leader_epoch,
            commit_time_ms=value.commit_time_ms,
        )
    assert {group_id: runner.offsets.fetch(group_id) for group_id in runner.offsets.groups()} == expected
    for partition in ORDERS:
        pinned = [
            held[partition].offset
            for held in expected.values()
            if partition in held and (pinned_until_ms(held[partition].metadata) or 0) > runner.now_ms
        ]
        assert runner.offsets.pinned_offset(partition, runner.now_ms) == min(pinned, default=None)


@examples(50)
@given(st.lists(requests, max_size=30), st.lists(st.tuples(st.sampled_from(PRODUCERS), st.booleans()), max_size=3))
def test_newest_records_followed_by_open_ones_give_the_same_state(asked, ends):
    """A log may be read that way: of each key the newest that counts, then what open transactions hold."""
    runner = OffsetsRunner()
    for request in asked:
        refusal_of(ask, runner, request)
    loaded = GroupOffsets()
    newest, open_records = {}, []
    for at, entry in enumerate(runner.log):
        if len(entry) == 2:
            continue
        key, value, producer_id = entry
        markers = [later[1] for later in runner.log[at:] if len(later) == 2 and later[0] == producer_id]
        if producer_id == -1 or markers[:1] == [True]:
            newest[key] = (at, value)
        elif not markers:
            open_records.append((at, key, value, producer_id))
    for key, (at, value) in newest.items():
        loaded.replay(decode_group_record(key, value), record_offset=at)
    for at, key, value, producer_id in open_records:
        loaded.replay(decode_group_record(key, value), record_offset=at, producer_id=producer_id)
    for producer_id, is_commit in ends:
        runner.mark(producer_id, is_commit=is_commit)
        loaded.replay_marker(producer_id, is_commit=is_commit)
    assert loaded.groups() == runner.offsets.groups()
    for group_id in GROUPS:
        assert loaded.fetch(group_id) == runner.offsets.fetch(group_id)
        assert loaded.pending_partitions(group_id) == runner.offsets.pending_partitions(group_id)


@examples(50)
@given(st.lists(requests, max_size=30), group_ids)
def test_a_deleted_group_leaves_no_state(asked, group_id):
    runner = OffsetsRunner()
    for request in asked:
        refusal_of(ask, runner, request)
    if refusal_of(ask, runner, ("delete", group_id)) is None:
        assert decode_group_record(*runner.log[-1][:2]) == GroupMetadataRecord(group_id=group_id)
    for producer_id in PRODUCERS:
        runner.mark(producer_id)
    assert runner.fetched(group_id) == {}
