from broker_core.handlers.transaction_errors import transaction_error
from broker_core.model.exceptions import (
    ConcurrentTransactionsError,
    CoordinatorLoadingError,
    ProducerFencedError,
    UnknownTransactionalIdError,
)


def test_error_codes_match_kafka_by_version():
    assert transaction_error(ProducerFencedError("")).name == "producer_fenced"
    assert transaction_error(ProducerFencedError(""), knows_fenced=False).name == "invalid_producer_epoch"
    assert transaction_error(UnknownTransactionalIdError("")).name == "invalid_producer_id_mapping"
    assert transaction_error(ConcurrentTransactionsError("")).name == "concurrent_transactions"
    assert transaction_error(CoordinatorLoadingError("")).name == "coordinator_load_in_progress"
