"""Levels of features are changed, as a plan: all that one request names, or none.

Every node must support a level before it is written: a node that does not stops when it reads the record. A voter that
has not registered is not asked. `metadata.version` only grows, since a lower level could not hold what is in the log;
`kraft.version` is not a level of the metadata log, and stays.

When eligible leader replicas are turned on, the default of min.insync.replicas comes into the log, and brokers lose
their own: see `config_plans`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_bootstrap import CONTROLLER_FEATURES
from broker_core.controller.cluster_facts import MIN_INSYNC_REPLICAS, ClusterFacts
from broker_core.controller.release_features import HIGHEST_LEVELS
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_records import (
    BrokerFeature,
    ConfigRecord,
    ControllerFeature,
    FeatureLevelRecord,
    MetadataRecord,
)
from broker_core.metadata.metadata_version import (
    ELIGIBLE_LEADERS_FEATURE,
    ELIGIBLE_LEADERS_LEVEL,
    KRAFT_VERSION_FEATURE,
    METADATA_VERSION_FEATURE,
)
from broker_core.model.exceptions import RequestRefusedError

_FAILED: Final = "The update failed for all features since the following feature had an error: "


class UpgradeType(enum.IntEnum):
    """Kafka's numbers (KIP-584)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """`upgrade_type` as it came."""

    name: str
    level: int
    upgrade_type: int


def plan_feature_updates(
    facts: ClusterFacts, updates: Iterable[FeatureUpdate], *, own_id: int
) -> CoordinatorResult[MetadataRecord, None]:
    """Of several for one feature the last counts. Raises RequestRefusedError, and nothing is changed."""
    wanted = {update.name: update for update in updates}
    levels = {**facts.image.features, **{name: update.level for name, update in wanted.items()}}
    records: list[MetadataRecord] = []
    for update in wanted.values():
        reason = _refusal(facts, update, levels, own_id=own_id)
        if reason is not None:
            raise RequestRefusedError(f"{_FAILED}{reason}", error_code=ErrorCode.invalid_update_version)
        if update.name != KRAFT_VERSION_FEATURE:
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    if ELIGIBLE_LEADERS_FEATURE in wanted and wanted[ELIGIBLE_LEADERS_FEATURE].level > 0:
        records = [*_default_in_log(facts), *records]
    return CoordinatorResult(records=tuple(records), reply=None)


def _refusal(facts: ClusterFacts, update: FeatureUpdate, levels: Mapping[str, int], *, own_id: int) -> str | None:
    invalid = f"Invalid update version {update.level} for feature {update.name}. "
    if update.upgrade_type not in set(UpgradeType):
        return invalid + "The controller does not support the given upgrade type."
    if update.level < 0:
        return invalid + "A feature version cannot be less than 0."
    if update.name == KRAFT_VERSION_FEATURE:
        now = facts.defaults.kraft_version
        return None if update.level == now else invalid + f"The quorum's {update.name} is {now}, and stays so."
    for who, features in _nodes(facts, own_id):
        reason = _not_supported(who, features, update)
        if reason is not None:
            return invalid + reason
    now = facts.image.features.get(update.name, 0)
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if update.level < now and is_upgrade:
        return invalid + (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > now and not is_upgrade:
        return invalid + "Can't downgrade to a newer version."
    if update.name == METADATA_VERSION_FEATURE:
        return None if update.level >= now else _refused_metadata_version(update, now)
    if update.name not in HIGHEST_LEVELS:
        return invalid + f"Feature {update.name} not found."
    if (
        update.name == ELIGIBLE_LEADERS_FEATURE
        and update.level
        and levels[METADATA_VERSION_FEATURE] < ELIGIBLE_LEADERS_LEVEL
    ):
        return invalid + (
            f"{update.name} could not be set to {update.level} because it depends on metadata.version level "
            f"{ELIGIBLE_LEADERS_LEVEL}"
        )
    return None


def _refused_metadata_version(update: FeatureUpdate, now: int) -> str:
    why = (
        "Unsafe metadata downgrade is not supported in this version."
        if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    return f"Unsupported metadata.version downgrade from {now} to {update.level}. {why}"


def _nodes(facts: ClusterFacts, own_id: int) -> Iterator[tuple[str, Iterable[BrokerFeature | ControllerFeature]]]:
    registrations = facts.image.registrations
    yield f"Local controller {own_id}", CONTROLLER_FEATURES
    for broker_id, broker in sorted(registrations.brokers.items()):
        yield f"Broker {broker_id}", broker.features
    for controller_id, controller in sorted(registrations.controllers.items()):
        if controller_id != own_id:
            yield f"Controller {controller_id}", controller.features


def _not_supported(
    who: str, features: Iterable[BrokerFeature | ControllerFeature], update: FeatureUpdate
) -> str | None:
    """A feature that a node does not name has the level 0 there."""
    spans = {each.name: (each.min_supported_version, each.max_supported_version) for each in features}
    lowest, highest = spans.get(update.name, (0, 0))
    if lowest <= update.level <= highest:
        return None
    if highest == 0:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {lowest if lowest == highest else f'{lowest}-{highest}'}"


def _default_in_log(facts: ClusterFacts) -> Iterator[ConfigRecord]:
    configs = facts.image.broker_configs
    if MIN_INSYNC_REPLICAS not in configs.get("", {}):
        yield _min_insync("", str(facts.defaults.min_insync_replicas))
    for broker, given in sorted(configs.items()):
        if broker and MIN_INSYNC_REPLICAS in given:
            yield _min_insync(broker, None)


def _min_insync(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ConfigResource.BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value
    )
