import itertools

import pytest
from kio.schema.errors import ErrorCode

from broker_core.fetch.fetch_session import FetchSessionCache, WantedPartition


def a_cache(max_session_count=10, **more):
    return FetchSessionCache(max_session_count=max_session_count, new_id=itertools.count(100).__next__, **more)


def wanted(*names, offset=0):
    return {name: WantedPartition(fetch_offset=offset, max_bytes=1000) for name in names}


def ask(cache, session_id, epoch, partitions=(), forgotten=(), now_ms=0, with_topic_ids=True):
    return cache.context_of(
        session_id=session_id,
        epoch=epoch,
        wanted=partitions if isinstance(partitions, dict) else wanted(*partitions),
        forgotten=forgotten,
        with_topic_ids=with_topic_ids,
        now_ms=now_ms,
    )


def tell(session, key, high_watermark=0, log_start_offset=0, has_records=False, has_error=False):
    return session.maybe_report(
        key,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        has_records=has_records,
        has_error=has_error,
    )


def test_without_a_session_the_request_lists_all_partitions():
    context = ask(a_cache(), 0, -1, ["a"])
    assert (context.session_id, context.session, list(context.wanted)) == (0, None, ["a"])


def test_epoch_0_starts_a_session_and_later_requests_are_incremental():
    cache = a_cache()
    assert ask(cache, 0, 0, ["a", "b"]).session_id == 100
    assert list(ask(cache, 100, 1).wanted) == ["a", "b"]
    assert list(ask(cache, 100, 2, ["c"], forgotten=["a"]).wanted) == ["b", "c"]
    changed = ask(cache, 100, 3, wanted("b", offset=7))
    assert changed.wanted["b"].fetch_offset == 7
    assert changed.is_incremental


def test_a_session_without_partitions_ends_with_its_next_request():
    """As Kafka does it."""
    cache = a_cache()
    assert ask(cache, 0, 0).session_id == 100
    context = ask(cache, 100, 1)
    assert (context.error, context.session_id, len(cache)) == (ErrorCode.none, 0, 0)


def test_an_unknown_session_is_refused():
    assert ask(a_cache(), 5, 1).error is ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("epoch", [2, 7])
def test_a_wrong_session_epoch_is_refused_and_the_session_is_kept(epoch):
    cache = a_cache()
    ask(cache, 0, 0, ["a"])
    assert ask(cache, 100, epoch).error is ErrorCode.invalid_fetch_session_epoch
    assert ask(cache, 100, 1).error is ErrorCode.none


def test_a_session_started_with_names_cannot_continue_with_ids():
    cache = a_cache()
    ask(cache, 0, 0, ["a"], with_topic_ids=False)
    assert ask(cache, 100, 1, with_topic_ids=True).error is ErrorCode.fetch_session_topic_id_error


def test_the_epoch_wraps_to_1():
    cache = a_cache()
    session = ask(cache, 0, 0, ["a"]).session
    session.epoch = 2**31 - 1
    assert ask(cache, 100, 2**31 - 1).error is ErrorCode.none
    assert ask(cache, 100, 1).error is ErrorCode.none


def test_the_final_epoch_ends_the_session():
    cache = a_cache()
    ask(cache, 0, 0, ["a"])
    assert ask(cache, 100, -1, ["b"]).session_id == 0
    assert ask(cache, 100, 1).error is ErrorCode.fetch_session_id_not_found


def test_a_session_that_drops_all_partitions_is_removed():
    cache = a_cache()
    ask(cache, 0, 0, ["a"])
    context = ask(cache, 100, 1, forgotten=["a"])
    assert (context.error, context.session_id, len(cache)) == (ErrorCode.none, 0, 0)


def test_unchanged_partitions_are_omitted_from_incremental_responses():
    session = ask(a_cache(), 0, 0, ["a"]).session
    assert tell(session, "a", high_watermark=5)
    assert not tell(session, "a", high_watermark=5)
    assert tell(session, "a", high_watermark=6)
    assert tell(session, "a", high_watermark=6, log_start_offset=2)
    assert tell(session, "a", high_watermark=6, log_start_offset=2, has_records=True)


def test_an_error_and_its_end_are_always_in_the_response():
    session = ask(a_cache(), 0, 0, ["a"]).session
    assert tell(session, "a", high_watermark=5)
    for _ in range(3):
        assert tell(session, "a", high_watermark=-1, log_start_offset=-1, has_error=True)
    assert tell(session, "a", high_watermark=5)


def test_after_an_error_the_partition_is_in_the_response_even_with_unchanged_bounds():
    """An error that is found after the bounds were read is told with them."""
    session = ask(a_cache(), 0, 0, ["a"]).session
    assert tell(session, "a", high_watermark=5, has_error=True)
    assert tell(session, "a", high_watermark=5)
    assert not tell(session, "a", high_watermark=5)


def test_partitions_that_returned_records_move_to_the_end():
    cache = a_cache()
    session = ask(cache, 0, 0, ["a", "b", "c"]).session
    tell(session, "a", has_records=True)
    assert list(ask(cache, 100, 1).wanted) == ["b", "c", "a"]


def test_a_full_cache_evicts_only_a_session_idle_for_two_minutes():
    cache = a_cache(max_session_count=2)
    ask(cache, 0, 0, ["a"], now_ms=0)
    ask(cache, 0, 0, ["b"], now_ms=50_000)
    assert ask(cache, 0, 0, ["c"], now_ms=119_999).session_id == 0
    assert ask(cache, 0, 0, ["c"], now_ms=120_000).session_id == 102
    assert ask(cache, 100, 1).error is ErrorCode.fetch_session_id_not_found
    assert ask(cache, 101, 1).error is ErrorCode.none
    assert (len(cache), cache.partition_count) == (2, 2)


def test_without_cache_slots_there_are_no_sessions():
    assert ask(a_cache(max_session_count=0), 0, 0, ["a"]).session_id == 0


@pytest.mark.parametrize(("count", "is_kept"), [(3, True), (4, False)])
def test_the_total_number_of_session_partitions_is_bounded(count, is_kept):
    """Each may name a million that are not there."""
    cache = a_cache(max_partition_count=5)
    ask(cache, 0, 0, ["a", "b"])
    assert (ask(cache, 0, 0, [f"{number}" for number in range(count)]).session is not None) is is_kept


def test_a_session_that_exceeds_the_limit_is_removed_and_its_client_starts_over():
    cache = a_cache(max_partition_count=3)
    ask(cache, 0, 0, ["a", "b"])
    assert ask(cache, 100, 1, ["c"]).error is ErrorCode.none
    assert ask(cache, 100, 2, ["d"]).error is ErrorCode.fetch_session_id_not_found
    assert (len(cache), cache.partition_count) == (0, 0)
