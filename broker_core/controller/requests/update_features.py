"""UpdateFeatures (57), versions 0 to 2: levels of features are changed, all that are named or none."""

from __future__ import annotations

from typing import Any, Final

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.feature_plans import FeatureUpdate, UpgradeType, plan_feature_updates
from broker_core.controller.requests.controller_api import ControllerApi, Planned, refuse_all_with_text
from broker_core.coordinator.contract import CoordinatorResult


def _plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    updates = [
        FeatureUpdate(name=str(each.feature), level=each.max_version_level, upgrade_type=_upgrade_type(each))
        for each in message.feature_updates
    ]
    result = plan_feature_updates(controller.facts, updates, own_id=controller.own_id)
    is_only_checked = getattr(message, "validate_only", False)
    # Version 2 has no results of single features.
    reply = {"error_message": None, "results": [{"feature": each.name, "error_message": None} for each in updates]}
    return CoordinatorResult(records=() if is_only_checked else result.records, reply=reply)


def _upgrade_type(asked: Any) -> int:
    """Version 0 only says whether a lower level is allowed."""
    if hasattr(asked, "upgrade_type"):
        return int(asked.upgrade_type)
    return UpgradeType.SAFE_DOWNGRADE if asked.allow_downgrade else UpgradeType.UPGRADE


API: Final = ControllerApi(key=57, versions=range(3), plan=_plan, refuse=refuse_all_with_text)
