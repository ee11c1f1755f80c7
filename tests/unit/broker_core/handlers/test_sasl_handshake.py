import pytest
from kio.schema.errors import ErrorCode
from support.nodes.security_node import SecurityNode, ask

from broker_core.protocol.api_table import ApiKey


@pytest.mark.parametrize("version", [0, 1])
def test_an_unexpected_handshake_is_illegal_sasl_state(tmp_path, version):
    answer = ask(SecurityNode(tmp_path), ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.illegal_sasl_state, ())
