"""The expected values are what Kafka 4.3.1 showed after the same changes."""

import pytest

from broker_core.model.list_changes import appended, subtracted
from broker_core.model.setting_kind import SettingKind, shown_value

ADD, TAKE = appended, subtracted


@pytest.mark.parametrize(
    ("stored", "changes", "shown"),
    [
        (" delete , compact ", [(ADD, " compact"), (TAKE, "delete")], "delete,compact"),
        (" delete , compact ", [(TAKE, " delete ")], "compact"),
        (" delete , compact ", [(ADD, " compact"), (TAKE, " delete "), (TAKE, " compact "), (TAKE, " compact")], ""),
        ("delete,compact", [(TAKE, " delete"), (TAKE, "delete ")], "delete,compact"),
        ("delete,compact", [(TAKE, "delete"), (TAKE, "compact")], ""),
        ("delete", [(TAKE, "")], "delete"),
        ("delete", [(ADD, "compact,")], "delete,compact"),
        ("delete", [(TAKE, ","), (ADD, ",")], "delete"),
        ("delete", [(ADD, "compact,compact"), (TAKE, "compact")], "delete"),
        ("", [(ADD, "compact")], "compact"),
        ("", [(ADD, "")], ""),
    ],
)
def test_items_are_compared_with_their_blanks_and_one_is_taken_for_each_given(stored, changes, shown):
    for change, given in changes:
        stored = change(stored, given)
    assert shown_value(SettingKind.LIST, stored) == shown


@pytest.mark.parametrize(
    ("stored", "change", "given", "shown"),
    [
        ("0:1,0:1", ADD, "0:1", "0:1,0:1"),
        ("0:1,0:1", TAKE, "0:1", "0:1"),
        ("0:1, 1:2", ADD, "1:2", "0:1,1:2,1:2"),
        ("0:1, 1:2,1:2", TAKE, " 1:2", "0:1,1:2"),
        ("0:1,1:1", TAKE, "1:1,0:1", ""),
        ("", ADD, "0:1,", "0:1"),
    ],
)
def test_duplicates_stay_and_are_taken_one_by_one(stored, change, given, shown):
    assert shown_value(SettingKind.LIST, change(stored, given), keeps_duplicates=True) == shown


@pytest.mark.parametrize(("stored", "given"), [("delete", ""), ("delete", ",compact"), (" ", "compact")])
def test_what_kafka_refuses_for_an_empty_item_has_one(stored, given):
    assert "" in [item.strip() for item in appended(stored, given).split(",")]
