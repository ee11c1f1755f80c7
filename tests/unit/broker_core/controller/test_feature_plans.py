"""Levels of features change, if every node supports them. The messages are Kafka's."""

import pytest
from kio.schema.errors import ErrorCode
from support.controller.small_cluster import FEATURES, SmallCluster

from broker_core.controller.feature_plans import FeatureUpdate, UpgradeType, plan_feature_updates
from broker_core.metadata.metadata_records import BrokerFeature, ConfigRecord, FeatureLevelRecord
from broker_core.model.exceptions import RequestRefusedError

UP, SAFE, UNSAFE = UpgradeType
ELR, TRANSACTION, METADATA = "eligible.leader.replicas.version", "transaction.version", "metadata.version"
OLD = tuple(
    BrokerFeature(name=each.name, min_supported_version=0, max_supported_version=each.max_supported_version)
    for each in FEATURES
    if each.name != TRANSACTION
)


@pytest.fixture
def cluster():
    return SmallCluster(1, 2)


def update(cluster, *changes):
    updates = [FeatureUpdate(name=name, level=level, upgrade_type=kind) for name, level, kind in changes]
    before = len(cluster.log)
    cluster.ask(lambda facts: plan_feature_updates(facts, updates, own_id=9))
    return cluster.log[before:]


def test_a_feature_goes_down_when_that_is_said_and_up_again(cluster):
    update(cluster, (TRANSACTION, 1, SAFE), ("streams.version", 0, SAFE))
    assert cluster.image.features[TRANSACTION] == 1
    assert "streams.version" not in cluster.image.features
    assert update(cluster, (TRANSACTION, 2, UP)) == [FeatureLevelRecord(name=TRANSACTION, feature_level=2)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((TRANSACTION, 1, UP), "Can't downgrade the version of this feature without setting the upgrade type"),
        ((TRANSACTION, 3, UP), "Local controller 9 only supports versions 0-2"),
        ((TRANSACTION, -1, SAFE), "A feature version cannot be less than 0."),
        ((TRANSACTION, 1, 0), "The controller does not support the given upgrade type."),
        (("foo.version", 1, UP), "Local controller 9 does not support this feature."),
        (("foo.version", 0, UP), "Feature foo.version not found."),
        (("kraft.version", 1, UP), "The quorum's kraft.version is 0, and stays so."),
        ((METADATA, 31, UP), "Local controller 9 only supports versions 7-30"),
        ((METADATA, 29, UP), "Can't downgrade the version of this feature without"),
        ((METADATA, 29, SAFE), "Refusing to perform the requested downgrade because it might delete metadata"),
        ((METADATA, 29, UNSAFE), "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_a_level_that_cannot_be_is_refused_with_the_reason_and_nothing_changes(cluster, change, reason):
    before = dict(cluster.image.features)
    with pytest.raises(RequestRefusedError) as refused:
        update(cluster, ("group.version", 0, SAFE), change)
    assert refused.value.error_code is ErrorCode.invalid_update_version
    assert refused.value.message.startswith("The update failed for all features since the following feature had an er")
    assert reason in refused.value.message
    assert cluster.image.features == before


def test_a_level_goes_up_by_an_upgrade_only(cluster):
    update(cluster, (TRANSACTION, 0, SAFE))
    with pytest.raises(RequestRefusedError, match="Can't downgrade to a newer version"):
        update(cluster, (TRANSACTION, 2, SAFE))


def test_every_broker_must_support_the_level(cluster):
    update(cluster, (TRANSACTION, 0, SAFE))
    cluster.start(3, features=OLD)
    with pytest.raises(RequestRefusedError, match=r"Broker 3 does not support this feature\."):
        update(cluster, (TRANSACTION, 2, UP))


def test_eligible_leaders_need_their_level_of_metadata_version(cluster):
    cluster.append(FeatureLevelRecord(name=ELR, feature_level=0), FeatureLevelRecord(name=METADATA, feature_level=22))
    with pytest.raises(RequestRefusedError, match=r"because it depends on metadata\.version level 23"):
        update(cluster, (ELR, 1, UP))
    update(cluster, (ELR, 1, UP), (METADATA, 30, UP))
    assert (cluster.image.features[ELR], cluster.image.metadata_version) == (1, 30)


def test_turning_eligible_leaders_on_leaves_one_default_of_min_insync_replicas(cluster):
    update(cluster, (ELR, 0, SAFE))
    for broker, value in (("", None), ("1", "2")):
        cluster.append(ConfigRecord(resource_type=4, resource_name=broker, name="min.insync.replicas", value=value))
    update(cluster, (ELR, 1, UP))
    assert cluster.image.broker_configs[""]["min.insync.replicas"] == "1"
    assert "min.insync.replicas" not in cluster.image.broker_configs.get("1", {})
