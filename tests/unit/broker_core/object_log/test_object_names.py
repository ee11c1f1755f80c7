import pytest

from broker_core.object_log.object_names import (
    begun_ms_of,
    checkpoint_path,
    commit_path,
    data_horizon_path,
    data_path,
    group_path,
    is_group,
    number_of,
)


def test_names_sort_as_numbers_and_times_do():
    assert commit_path(9) < commit_path(10) < commit_path(10**19)
    assert data_path(999, b"f" * 16) < data_horizon_path(1000) < data_path(1000, b"0" * 16)


def test_numbers_and_times_are_read_from_names():
    assert number_of(commit_path(42)) == number_of(checkpoint_path(42)) == 42
    assert begun_ms_of(data_path(1234, bytes(16))) == 1234


def test_foreign_objects_beside_groups_are_recognised():
    assert is_group(group_path("a/b"))
    assert not any(is_group(path) for path in ("groups/.DS_Store", "groups/README", "groups/g-x/data/y", "data/g-x"))


@pytest.mark.parametrize("name", ["checkpoints/latest", "commits/42", "data/x", "commits/" + "x" * 20])
def test_other_names_have_neither(name):
    assert number_of(name) is None
    assert begun_ms_of(name) is None


def test_each_group_has_a_name_of_its_own_that_every_store_takes():
    groups = ["g", "G", ".", "..", "a/b", "a=2Fb", "%", "~", "ü", "a b", "", "x" * 300, "x" * 299 + "y"]
    paths = [group_path(group) for group in groups]
    assert len(set(paths)) == len(groups)
    for path in paths:
        name = path.removeprefix("groups/")
        assert name.startswith("g-") and "/" not in name and len(name) <= 255
        assert name.isascii() and not set(name) & set("%~*?#[]{}\\ \"'")
