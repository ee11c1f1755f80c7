import pytest

from broker_core.log.producer_entry import ProducerEntry
from broker_core.model.exceptions import ContradictingMarkerError, InvalidTransactionStateError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.control_records import EndTransactionMarker
from broker_core.txn.transaction_replies import EndingTransaction
from broker_core.txn.written_markers import check_written_marker, has_marker

T0 = TopicPartition("t", 0)


def an_ending(*, is_commit=True, is_epoch_bumped=True):
    return EndingTransaction(
        transactional_id="id",
        producer_id=7,
        producer_epoch=3,
        is_commit=is_commit,
        partitions=(T0,),
        coordinator_epoch=0,
        is_epoch_bumped=is_epoch_bumped,
    )


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (None, False),
        (ProducerEntry(7, 3, coordinator_epoch=0), True),
        (ProducerEntry(7, 3, coordinator_epoch=0, transaction_first_offset=5), False),
        (ProducerEntry(7, 3), False),
        (ProducerEntry(7, 2, coordinator_epoch=0), False),
        (ProducerEntry(7, 4, coordinator_epoch=0), False),
    ],
    ids=["no entry", "its marker", "records after it", "no marker", "an older epoch", "a newer epoch"],
)
def test_a_marker_of_the_epoch_is_there_if_no_record_follows_it(entry, expected):
    assert has_marker(entry, an_ending()) is expected


@pytest.mark.parametrize("is_commit", [True, False])
def test_only_a_marker_of_the_other_kind_contradicts_an_end(is_commit):
    marker = EndTransactionMarker(is_commit=not is_commit, coordinator_epoch=0)
    for ending, written in (
        (an_ending(is_commit=is_commit), None),
        (an_ending(is_commit=not is_commit), marker),
        (an_ending(is_commit=is_commit, is_epoch_bumped=False), marker),
    ):
        check_written_marker(T0, written, ending)
    with pytest.raises(ContradictingMarkerError) as caught:
        check_written_marker(T0, marker, an_ending(is_commit=is_commit))
    assert isinstance(caught.value, InvalidTransactionStateError)
    assert (caught.value.partition, caught.value.producer_id) == (T0, 7)
    found, decided = ("an abort", "a commit") if is_commit else ("a commit", "an abort")
    assert caught.value.message.startswith(f"t-0: producer 7 has {found} marker with epoch 3, but")
    assert f"'id' decided {decided}" in caught.value.message
