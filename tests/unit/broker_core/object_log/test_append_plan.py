import pytest
from support.objects.object_builders import OTHER_ID, SOME_MS, a_commit, a_path, a_range, a_topic, an_append, an_image

from broker_core.model.exceptions import UnknownPartitionError, UnknownTopicError, UploadExpiredError
from broker_core.object_log.append_plan import AlreadyCommitted, plan_append
from broker_core.object_log.commit import AdvanceHorizon, AppendRanges
from broker_core.staged_writes import AppVersion


def version_of(app_id, version):
    return AppVersion(app_id=app_id, version=version)


def appended(number, **where):
    return an_append(a_range(number), **where).ranges


@pytest.fixture
def image():
    """One range, and version 5 of the application `sink`."""
    image = an_image(a_topic(), an_append(a_range(1)))
    image.apply(a_commit(image.number + 1, an_append(a_range(2)), app=version_of("sink", 5)))
    return image


def test_new_ranges_are_appended(image):
    assert plan_append(image, appended(3)) == (AppendRanges(ranges=appended(3)),)


@pytest.mark.parametrize(("version", "is_committed"), [(4, True), (5, True), (6, False)])
def test_a_version_of_an_application_is_committed_once(image, version, is_committed):
    planned = plan_append(image, appended(3), version_of("sink", version))
    assert planned == (
        AlreadyCommitted(last=version_of("sink", 5)) if is_committed else (AppendRanges(ranges=appended(3)),)
    )


def test_another_application_has_versions_of_its_own(image):
    assert plan_append(image, appended(3), version_of("other", 1)) == (AppendRanges(ranges=appended(3)),)


def test_a_version_without_ranges_is_a_commit_without_changes(image):
    assert plan_append(image, [], version_of("sink", 6)) == ()
    assert plan_append(image, [], version_of("sink", 5)) == AlreadyCommitted(last=version_of("sink", 5))


def test_ranges_that_are_all_there_were_committed_by_a_write_whose_answer_was_lost(image):
    assert plan_append(image, appended(1) + appended(2)) == AlreadyCommitted(last=None)


def test_ranges_of_which_some_are_there_are_refused(image):
    with pytest.raises(UploadExpiredError):
        plan_append(image, appended(1) + appended(3))


def test_data_uploaded_before_the_horizon_is_refused_by_name(image):
    image.apply(a_commit(image.number + 1, AdvanceHorizon(horizon_ms=SOME_MS + 1)))
    with pytest.raises(UploadExpiredError, match=r"uploaded before the log's removal horizon") as caught:
        plan_append(image, appended(3))
    assert (caught.value.object, caught.value.horizon_ms) == (a_path(3), SOME_MS + 1)


def test_a_deleted_topic_and_a_partition_that_is_not_there_are_refused(image):
    with pytest.raises(UnknownTopicError, match="it was deleted during the write"):
        plan_append(image, appended(3, topic_id=OTHER_ID))
    with pytest.raises(UnknownPartitionError, match="Partition 2 of topic 't' does not exist"):
        plan_append(image, appended(3, partition=2))
    assert plan_append(image, appended(3, partition=1)) == (AppendRanges(ranges=appended(3, partition=1)),)
