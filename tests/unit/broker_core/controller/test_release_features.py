import pytest

from broker_core.controller.cluster_bootstrap import NEW_CLUSTER_FEATURES
from broker_core.controller.release_features import level_of_release, levels_of_new_cluster
from broker_core.model.exceptions import InvalidConfigError

ELR, GROUP, SHARE, STREAMS, TRANSACTION = (
    "eligible.leader.replicas.version", "group.version", "share.version", "streams.version", "transaction.version",
)  # fmt: skip


@pytest.mark.parametrize(
    ("release", "level"),
    [
        ("3.3-IV3", 7),
        ("3.3", 7),
        ("3.7", 19),
        ("3.7-IV2", 17),
        ("4.0", 25),
        ("4.2.1", 29),
        ("4.3", 30),
        ("4.3-IV0", 30),
    ],
)
def test_a_release_is_named_in_short_or_in_full(release, level):
    assert level_of_release(release) == level


@pytest.mark.parametrize("release", ["3.2", "4.4", "4.3-IV1", "four", ""])
def test_an_unknown_release_is_refused_with_the_known_ones(release):
    with pytest.raises(InvalidConfigError, match=r"unknown release .*; known are 3\.3-IV3, .*, 4\.3-IV0"):
        level_of_release(release)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        # As `kafka-storage version-mapping` of Kafka 4.3.1 prints them.
        ("3.3", (0, 0, 0, 0, 0)),
        ("3.9", (0, 0, 0, 0, 0)),
        ("4.0-IV0", (0, 1, 0, 0, 0)),
        ("4.0-IV1", (0, 1, 0, 0, 0)),
        ("4.0-IV2", (0, 1, 0, 0, 2)),
        ("4.0", (0, 1, 0, 0, 2)),
        ("4.1-IV0", (1, 1, 0, 0, 2)),
        ("4.2-IV0", (1, 1, 1, 0, 2)),
        ("4.2", (1, 1, 1, 1, 2)),
        ("4.3", (1, 1, 1, 1, 2)),
    ],
)
def test_a_new_cluster_begins_with_the_levels_of_its_release(release, expected):
    levels = levels_of_new_cluster(release, {})
    assert tuple(levels[name] for name in (ELR, GROUP, SHARE, STREAMS, TRANSACTION)) == expected


def test_without_a_release_they_are_those_that_our_own_controller_begins_with():
    assert levels_of_new_cluster(None, {}) == NEW_CLUSTER_FEATURES


def test_a_level_that_is_asked_for_overrides_the_releases():
    levels = levels_of_new_cluster("4.0", {TRANSACTION: 0, ELR: 1})
    assert (levels["metadata.version"], levels[TRANSACTION], levels[ELR], levels[GROUP]) == (25, 0, 1, 1)


@pytest.mark.parametrize(
    ("release", "asked", "reason"),
    [
        ("4.3", {"metadata.version": 30}, "exclude each other"),
        (None, {"metadata.version": 31}, "levels are 7 to 30"),
        (None, {"metadata.version": 6}, "levels are 7 to 30"),
        (None, {"foo.version": 1}, "unknown feature 'foo.version'; known are eligible"),
        (None, {TRANSACTION: 3}, "transaction.version=3: levels are 0 to 2"),
        (None, {"kraft.version": 2}, "kraft.version=2: levels are 0 to 1"),
        ("3.9", {ELR: 1}, r"needs metadata.version 23 \(4.0-IV1\) or more, and it is 21"),
    ],
)
def test_levels_that_no_new_cluster_can_have_are_refused(release, asked, reason):
    with pytest.raises(InvalidConfigError, match=reason):
        levels_of_new_cluster(release, asked)
