import pytest
from kio.schema.errors import ErrorCode
from support.nodes.security_node import SecurityNode, ask

from broker_core.protocol.api_table import ApiKey


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_unexpected_token_is_illegal_sasl_state(tmp_path, version):
    answer = ask(SecurityNode(tmp_path), ApiKey.SASL_AUTHENTICATE, version, auth_bytes=b"\0ann\0x")
    assert answer.error_code == ErrorCode.illegal_sasl_state
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    assert answer.auth_bytes == b""
