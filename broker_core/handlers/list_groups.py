"""ListGroups (16), versions 0 to 5: the groups of all protocols, from version 4 on by state, from 5 on by type.

Clients ask each broker: the groups are those whose coordinator is here. Leaves out groups that the client may not
describe, unless it may describe the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_core.group.group_descriptions import ListedGroup
from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError


def handle(call: Call) -> None:
    states = tuple(call.request_field("states_filter", ()))
    types = tuple(call.request_field("types_filter", ()))

    def refused(error: StreamlogError) -> None:
        call.respond(error_code=error.error_code)

    call.node.groups.look_all(
        lambda coordinator: coordinator.list_groups(states, types), lambda groups: _respond(call, groups), refused
    )


def _respond(call: Call, groups: Sequence[ListedGroup]) -> None:
    sees_all = call.is_allowed(Operation.DESCRIBE, ResourceType.CLUSTER, log_if_denied=False)
    call.respond(
        groups=[
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.group_type.value,
            }
            for group in groups
            if sees_all or call.is_allowed(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, log_if_denied=False)
        ]
    )
