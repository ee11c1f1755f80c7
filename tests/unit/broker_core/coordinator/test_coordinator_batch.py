from broker_core.coordinator.coordinator_batch import build_coordinator_batch
from broker_core.model.identifiers import CompressionType
from broker_core.record.batch_header import read_header
from broker_core.record.batch_reader import Record, records_of


def test_small_batches_stay_uncompressed_and_large_ones_are_compressed():
    small = build_coordinator_batch([Record(key=b"k", value=b"x" * 1000)])
    large = build_coordinator_batch([Record(key=b"%d" % n, value=b"x" * 1000) for n in range(300)], producer_id=3)
    assert read_header(small).compression_type is CompressionType.NONE
    assert read_header(large).compression_type is CompressionType.ZSTD
    assert (len(large) < 30_000, read_header(large).producer_id) == (True, 3)
    assert sum(1 for _ in records_of(large, 0)) == 300
