"""DescribeCluster (60), versions 0 to 2: the cluster's id, its controller and its brokers, fenced ones if asked for.

Left out on purpose: controller endpoints (endpoint type 2), which a combined node does not have.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.handlers.topic_answers import NOT_ASKED_FOR, place_of
from broker_core.model.access_control import Operation, ResourceType, operations_bit_field

_BROKERS, _CONTROLLERS = 1, 2


def handle(call: Call) -> None:
    endpoint_type = call.request_field("endpoint_type", _BROKERS)
    if endpoint_type != _BROKERS:
        call.respond(
            error_code=(
                ErrorCode.mismatched_endpoint_type
                if endpoint_type == _CONTROLLERS
                else ErrorCode.unsupported_endpoint_type
            ),
            error_message=f"This endpoint has type {_BROKERS} (brokers), but the request has type {endpoint_type}.",
            endpoint_type=_BROKERS,
        )
        return
    operations = NOT_ASKED_FOR
    if call.message.include_cluster_authorized_operations:
        operations = 0
        if call.is_allowed(Operation.DESCRIBE, ResourceType.CLUSTER):
            operations = operations_bit_field(call.allowed_operations(ResourceType.CLUSTER))
    cluster = call.node.cluster
    fenced = cluster.fenced_brokers if call.request_field("include_fenced_brokers", False) else ()
    call.respond(
        endpoint_type=_BROKERS,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller,
        brokers=[
            {"broker_id": each, "rack": cluster.rack_of(each), "is_fenced": each in fenced} | place_of(call, each)
            for each in sorted((*cluster.brokers, *fenced))
        ],
        cluster_authorized_operations=operations,
    )
