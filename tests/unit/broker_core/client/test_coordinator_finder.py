import pytest
from kio.schema.errors import ErrorCode
from support.clients.recorded_wire import recorded_exchanges

from broker_core.client.coordinator_finder import CoordinatorType, coordinator_request, coordinators_of
from broker_core.model.exceptions import BrokerError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_reader import decode


def real_answer():
    exchange = recorded_exchanges()["find coordinator"]
    return decode(message_types(10, 4).response, memoryview(exchange.response), 9)[0]


def test_a_response_of_a_real_broker_is_decoded():
    assert coordinators_of(CoordinatorType.TRANSACTION, ["wire-tx"], real_answer()) == {"wire-tx": 1}


def test_a_key_missing_in_the_response_has_no_coordinator():
    with pytest.raises(BrokerError, match="the coordinator of transaction 'other'") as caught:
        coordinators_of(CoordinatorType.TRANSACTION, ["wire-tx", "other"], real_answer())
    assert caught.value.error_code is ErrorCode.coordinator_not_available


def test_many_keys_share_one_request():
    request = coordinator_request(CoordinatorType.GROUP, ["a", "b"])
    assert (request.key_type, request.coordinator_keys) == (0, ("a", "b"))
