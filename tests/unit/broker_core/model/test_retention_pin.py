import pytest

from broker_core.model.retention_pin import pin_metadata, pinned_until_ms


@pytest.mark.parametrize("until_ms", [0, 1_767_225_600_000, 2**63 - 1])
def test_pin_metadata_round_trips(until_ms):
    assert pinned_until_ms(pin_metadata(until_ms)) == until_ms


def test_pin_metadata_has_the_documented_format():
    assert pin_metadata(1_767_225_600_000) == "streamlog-pin-until:1767225600000"


@pytest.mark.parametrize(
    "metadata",
    ["", "consumer-7", "streamlog-pin-until:", "streamlog-pin-until:-1", "streamlog-pin-until:soon",
     "streamlog-pin-until:5 ", "x streamlog-pin-until:5", "streamlog-pin-until:٣", "streamlog-pin-until:" + "9" * 4000],
)  # fmt: skip
def test_other_metadata_is_not_a_pin(metadata):
    assert pinned_until_ms(metadata) is None


def test_text_after_a_semicolon_does_not_change_the_pin():
    assert pinned_until_ms(pin_metadata(7) + ';topic ids: {"a;b\n"}') == 7
