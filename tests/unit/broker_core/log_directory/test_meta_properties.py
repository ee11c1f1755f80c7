from uuid import UUID

import pytest

from broker_core.log_directory.meta_properties import MetaProperties, decode_meta_properties, encode_meta_properties
from broker_core.model.exceptions import DirectoryFormatError

WRITTEN_BY_KAFKA = (
    b"#\n#Fri Nov 27 23:30:21 UTC 2026\nnode.id=1\ndirectory.id=EHiYluIKaMOpVsGPzN5Nlg\nversion=1\n"
    b"cluster.id=8Q5L9fuUQ_aX3501_diiwA\n"
)


def test_meta_properties_round_trip_and_are_recognized_as_ours():
    properties = MetaProperties(cluster_id="c" * 22, directory_id=UUID(int=5), node_id=1, is_ours=True)
    assert decode_meta_properties(encode_meta_properties(properties), "p") == properties


def test_meta_properties_of_a_real_kafka_are_not_ours():
    properties = decode_meta_properties(WRITTEN_BY_KAFKA, "p")
    assert properties == MetaProperties(
        cluster_id="8Q5L9fuUQ_aX3501_diiwA",
        directory_id=UUID("10789896-e20a-68c3-a956-c18fccde4d96"),
        node_id=1,
        is_ours=False,
    )


def test_an_old_brokers_file_has_no_directory_id():
    properties = decode_meta_properties(b"broker.id=3\nversion=0\ncluster.id=x\\:y\n", "p")
    assert (properties.node_id, properties.cluster_id, properties.directory_id.int) == (3, "x:y", 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"/log/meta\.properties has version=\(nothing\)"),
        (b"version=2\nnode.id=1\n", "has version=2; supported are 0 and 1"),
        (b"version=1\n", r"has no valid node id: node\.id=\(nothing\)"),
        (b"version=1\nnode.id=x\n", r"has no valid node id: node\.id=x"),
        (b"version=1\nnode.id=1\ndirectory.id=?\n", r"directory\.id=\?"),
        (b"version=1\nnode.id=1\nstreamlog.format=2\n", r"has streamlog\.format=2, but this version supports 1"),
        (b"\xff\xfe\x00", "has version"),
    ],
)
def test_an_invalid_file_is_refused_with_the_wrong_line(data, message):
    with pytest.raises(DirectoryFormatError, match=message):
        decode_meta_properties(data, "/log/meta.properties")
