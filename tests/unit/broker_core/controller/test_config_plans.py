"""Settings in the metadata log: what is written, what is refused, and what it does to eligible leader replicas."""

import pytest
from support.controller.small_cluster import SmallCluster

from broker_core.controller.config_plans import (
    ConfigChange,
    ConfigOperation,
    plan_config_changes,
    plan_config_replacement,
)
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_records import ClearElrRecord
from broker_core.model.exceptions import StreamlogError

TOPIC, BROKER, GROUP = ConfigResource.TOPIC, ConfigResource.BROKER, ConfigResource.GROUP


@pytest.fixture
def cluster():
    cluster = SmallCluster(1, 2)
    cluster.create("t", (1, 2), retention_ms="5")
    return cluster


def change(cluster, resource, name, *changes):
    """Each is (setting, value) or (setting, value, operation)."""
    wanted = [
        ConfigChange(name=setting, value=value, operation=ConfigOperation[operation[0] if operation else "SET"])
        for setting, value, *operation in changes
    ]
    cluster.ask(lambda facts: plan_config_changes(facts, resource, name, wanted))
    return dict(cluster.image.configs_of(resource, name))


def test_single_settings_are_set_and_reset_and_the_others_stay(cluster):
    assert change(cluster, TOPIC, "t", ("segment.ms", "9")) == {"retention.ms": "5", "segment.ms": "9"}
    assert change(cluster, TOPIC, "t", ("retention.ms", None, "DELETE")) == {"segment.ms": "9"}
    written = len(cluster.log)
    change(cluster, TOPIC, "t", ("segment.ms", "9"), ("never.was", None, "DELETE"))
    assert len(cluster.log) == written


def test_lists_grow_and_shrink(cluster):
    assert change(cluster, TOPIC, "t", ("cleanup.policy", "compact", "APPEND"))["cleanup.policy"] == "delete,compact"
    assert change(cluster, TOPIC, "t", ("cleanup.policy", "delete", "SUBTRACT"))["cleanup.policy"] == "compact"


def test_list_items_are_compared_as_they_were_typed(cluster):
    change(cluster, TOPIC, "t", ("cleanup.policy", " delete , compact "))
    assert (
        change(cluster, TOPIC, "t", ("cleanup.policy", "delete", "SUBTRACT"))["cleanup.policy"] == " delete , compact "
    )
    assert change(cluster, TOPIC, "t", ("cleanup.policy", " delete ", "SUBTRACT"))["cleanup.policy"] == " compact "


@pytest.mark.parametrize("operation", ["APPEND", "SUBTRACT"])
def test_the_refusal_of_a_setting_that_is_no_list_names_the_operation(cluster, operation):
    with pytest.raises(StreamlogError, match=f"Can't {operation} to key retention.ms because its type is not LIST"):
        change(cluster, TOPIC, "t", ("retention.ms", "1", operation))


def test_a_replacement_resets_what_it_does_not_name(cluster):
    cluster.ask(lambda facts: plan_config_replacement(facts, TOPIC, "t", {"segment.ms": "9"}))
    assert dict(cluster.image.configs_of(TOPIC, "t")) == {"segment.ms": "9"}


def test_brokers_and_groups_have_settings_too(cluster):
    assert change(cluster, BROKER, "1", ("log.cleaner.threads", "2")) == {"log.cleaner.threads": "2"}
    assert change(cluster, GROUP, "g", ("consumer.session.timeout.ms", "50000"))


@pytest.mark.parametrize(
    ("resource", "name", "changes", "error"),
    [
        (TOPIC, "none", [("retention.ms", "1")], "unknown_topic_or_partition"),
        (TOPIC, "", [("retention.ms", "1")], "invalid_request"),
        (TOPIC, "t", [("no.such", "1")], "invalid_config"),
        (TOPIC, "t", [("retention.ms", "x")], "invalid_config"),
        (TOPIC, "t", [("retention.ms", None)], "invalid_request"),
        (TOPIC, "t", [("retention.ms", "1"), ("retention.ms", "2")], "invalid_request"),
        (TOPIC, "t", [("retention.ms", "1", "APPEND")], "invalid_config"),
        (BROKER, "x", [("log.cleaner.threads", "2")], "invalid_request"),
        (BROKER, "1", [("min.insync.replicas", "2")], "invalid_config"),
        (BROKER, "", [("min.insync.replicas", None, "DELETE")], "invalid_config"),
        (BROKER, "", [("min.insync.replicas", "0")], "invalid_config"),
        (BROKER, "", [("log.cleaner.threads", "x" * 32_768)], "invalid_config"),
        (GROUP, "", [("consumer.session.timeout.ms", "1")], "invalid_request"),
    ],
)
def test_what_cannot_be_set_is_refused(cluster, resource, name, changes, error):
    with pytest.raises(StreamlogError) as refused:
        change(cluster, resource, name, *changes)
    assert refused.value.error_code.name == error


def test_a_value_may_have_as_many_characters_as_kafka_allows(cluster):
    assert change(cluster, BROKER, "", ("log.cleaner.threads", "x" * 32_767))


@pytest.mark.parametrize(("resource", "name", "cleared"), [(TOPIC, "t", "t"), (BROKER, "", "")])
def test_another_minimum_of_replicas_in_sync_forgets_who_was_eligible(cluster, resource, name, cleared):
    change(cluster, BROKER, "", ("min.insync.replicas", "2"))
    cluster.fence(2)
    assert cluster.partition("t").eligible_leader_replicas == (2,)
    change(cluster, resource, name, ("min.insync.replicas", "3"))
    assert cluster.log[-1] == ClearElrRecord(topic_name=cleared)
    assert cluster.partition("t").eligible_leader_replicas == ()
