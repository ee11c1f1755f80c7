import pytest

from spark_streamlog.planning.offset_limits import BeforeEnd, BeforeNow, CommittedByGroup
from spark_streamlog.planning.relative_start import relative_start_of


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("-10m", 600_000), ("-2h", 7_200_000), ("-30s", 30_000), ("-1d", 86_400_000), (" - 500 MS ", 500)],
)
def test_a_duration_before_now_is_parsed(text, milliseconds):
    assert relative_start_of(text) == BeforeNow(duration_ms=milliseconds)


@pytest.mark.parametrize(
    "text", ["-1", "-2", "-10", "-m", "-0s", "-1.5h", "-10 fortnights", "-" + "9" * 19 + "d", "--1s"]
)
def test_a_minus_without_a_valid_duration_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a duration before now; expected for example -30s, -10m"):
        relative_start_of(text)


@pytest.mark.parametrize(
    ("text", "count"), [("latest-1000", 1000), ("LATEST - 1", 1), ("latest-9223372036854775807", 2**63 - 1)]
)
def test_a_count_before_the_end_is_parsed(text, count):
    assert relative_start_of(text) == BeforeEnd(offset_count=count)


@pytest.mark.parametrize(
    "text", ["latest-", "latest-0", "latest--5", "latest-1k", "latest-9223372036854775808", "latest-5m"]
)
def test_an_invalid_count_before_the_end_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a count of offsets before the end; expected for example latest-1000"):
        relative_start_of(text)


@pytest.mark.parametrize(
    ("text", "group_id"),
    [("group:billing", "billing"), ("Group: Billing ", "Billing"), ("group:a:b-1", "a:b-1"), ("group:-10m", "-10m")],
)
def test_a_group_id_keeps_its_case(text, group_id):
    assert relative_start_of(text) == CommittedByGroup(group_id=group_id)


def test_an_empty_group_id_is_refused():
    with pytest.raises(ValueError, match="does not name a consumer group"):
        relative_start_of("group: ")


@pytest.mark.parametrize("text", ["earliest", "latest", "", "{}", '{"group:":{"0":1}}', "yesterday", "10m", "groups"])
def test_other_texts_are_not_relative_starts(text):
    assert relative_start_of(text) is None
