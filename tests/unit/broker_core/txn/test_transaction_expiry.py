from broker_core.model.identifiers import SINGLE_USE_ID_PREFIX
from broker_core.model.limits import NO_TRANSACTION_TIMEOUT_MS, SINGLE_USE_ID_EXPIRATION_MS
from broker_core.txn.transaction_expiry import is_expired, is_idle
from broker_core.txn.transaction_steps import first, with_partitions


def opened(timeout_ms):
    return with_partitions(first(7, timeout_ms=timeout_ms, now_ms=0), (), now_ms=1_000)


def test_a_transaction_expires_after_its_timeout():
    assert [is_expired(opened(500), now_ms) for now_ms in (1_499, 1_500)] == [False, True]
    assert not is_expired(opened(NO_TRANSACTION_TIMEOUT_MS), 10**15)


def test_an_id_expires_after_the_broker_setting_and_a_single_use_id_soon():
    value = opened(500)
    assert [is_idle("t", value, now_ms, id_expiration_ms=99) for now_ms in (1_098, 1_099)] == [False, True]
    until_ms = 1_000 + SINGLE_USE_ID_EXPIRATION_MS
    name = SINGLE_USE_ID_PREFIX + "1"
    idle = [is_idle(name, value, now_ms, id_expiration_ms=10**15) for now_ms in (until_ms - 1, until_ms)]
    assert idle == [False, True]
