"""What a controller lets whom ask, as Kafka's ControllerApis decide it.

    CLUSTER_NEEDS     one operation on the cluster for the whole request; without it everything in it is refused
    SCREENS           each topic or resource by itself: those that are refused are taken out of the request before it is
                      planned, and put into its answer

Without an authorizer everything is allowed, and access rules are neither shown nor changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.requests.controller_api import ControllerApi, Planned
from broker_core.controller.requests.resource_screens import SCREENS
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.authorizer import Authorizer
from broker_core.model.access_control import CLUSTER_NAME, Operation, ResourceType
from broker_core.model.exceptions import RequestRefusedError
from broker_core.protocol.api_table import api_label

_ACTION, _ALTER, _DESCRIBE = Operation.CLUSTER_ACTION, Operation.ALTER, Operation.DESCRIBE
CLUSTER_NEEDS: Final[Mapping[int, Operation]] = {
    **dict.fromkeys((1, 52, 53, 54, 59, 82), _ACTION),  # the quorum's: Fetch, Vote, Begin- and EndQuorumEpoch, …
    **dict.fromkeys((56, 58, 62, 63, 67, 70, 73), _ACTION),  # of nodes: AlterPartition, Envelope, registrations, …
    **dict.fromkeys((43, 45, 51, 57, 64, 80, 81), _ALTER),
    **dict.fromkeys((46, 55), _DESCRIBE),
    49: Operation.ALTER_CONFIGS,
    60: _ALTER,  # DescribeCluster: other than at a broker
    29: _DESCRIBE,
    **dict.fromkeys((30, 31), _ALTER),
}
"""By API key. Those that are neither here nor among the screens are open to everyone: ApiVersions and the login."""

_ACCESS_RULES: Final = frozenset({29, 30, 31})


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asks: the client of a connection, or the one whose request a broker sends on. `is_ready` False: the access
    rules are not known yet, and only super users may do something."""

    principal: str
    host: str
    authorizer: Authorizer | None
    is_ready: bool = True

    def is_allowed(
        self,
        operation: Operation,
        resource_type: ResourceType = ResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        """Raises RequestRefusedError while that is not known."""
        if self.authorizer is None:
            return True
        if not self.is_ready and not self.authorizer.is_super_user(self.principal):
            raise RequestRefusedError(
                "the access rules are not known to this controller yet", error_code=ErrorCode.unknown_server_error
            )
        return self.authorizer.authorize(
            self.principal, self.host, operation, resource_type, name, log_if_denied=log_if_denied
        )

    def require(self, api_key: int) -> None:
        """What the whole request needs on the cluster. Raises RequestRefusedError."""
        need = CLUSTER_NEEDS.get(api_key)
        if need is not None and not self.is_allowed(need):
            raise RequestRefusedError(
                f"{api_label(api_key)} needs {need.name} permission on the cluster.",
                error_code=ErrorCode.cluster_authorization_failed,
            )
        if api_key in _ACCESS_RULES and self.authorizer is None:
            raise RequestRefusedError("No Authorizer is configured.", error_code=ErrorCode.security_disabled)


def screened(api: ControllerApi, requester: Requester) -> ControllerApi:
    """The same for this requester, who has what the whole request needs."""
    screen = SCREENS.get(api.key)
    if screen is None or requester.authorizer is None:
        return api
    plan_allowed, screen_one = api.plan, screen

    def plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
        found = screen_one(controller.image, requester, message)
        result = plan_allowed(controller, found.message, now_ms)
        return CoordinatorResult(records=result.records, reply=found.complete(result.reply))

    return replace(api, plan=plan)
