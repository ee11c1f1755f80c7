"""Whether a cluster creates a missing topic when a client writes to it: the brokers' auto.create.topics.enable."""

from __future__ import annotations

import random
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.deadline import Deadline
from broker_core.model.exceptions import BrokerUnavailableError

SETTING: Final = "auto.create.topics.enable"
_BROKER_RESOURCE: Final = 4
_NOT_AUTHORIZED: Final = (ErrorCode.cluster_authorization_failed, ErrorCode.topic_authorization_failed)


def auto_creates_topics(router: BrokerRouter) -> bool | None:
    """As one broker is set; None where it does not tell this user (it takes DESCRIBE_CONFIGS on CLUSTER)."""
    return router.run(f"ask for the broker setting {SETTING}", lambda deadline: _ask(router, deadline))


def _ask(router: BrokerRouter, deadline: Deadline) -> bool | None:
    brokers = router.view(deadline).brokers
    if not brokers:
        raise BrokerUnavailableError("the metadata of the cluster lists no broker")
    # Only the broker itself can say what its file sets, and every one of a cluster is set alike.
    node_id = random.choice(sorted(brokers))
    (answer,) = router.ask_node(node_id, [_request(node_id)], deadline)
    for result in answer.results:
        if result.error_code in _NOT_AUTHORIZED:
            return None
        if result.error_code != ErrorCode.none:
            raise broker_error(result.error_code, f"the settings of broker {node_id}", result.error_message)
        for entry in result.configs:
            if entry.name == SETTING and entry.value is not None:
                return bool(entry.value.lower() == "true")
    return None


def _request(node_id: int) -> Any:
    from kio.schema.describe_configs.v4 import request as schema

    resource = schema.DescribeConfigsResource(
        resource_type=i8(_BROKER_RESOURCE), resource_name=str(node_id), configuration_keys=(SETTING,)
    )
    return schema.DescribeConfigsRequest(resources=(resource,))
