import pickle

import pytest

from spark_streamlog.serde.limits import MAX_CACHED_SCHEMAS, MAX_UNKNOWN_SCHEMA_IDS, UNKNOWN_SCHEMA_ID_SECONDS
from spark_streamlog.serde.open_registry import open_registry
from spark_streamlog.serde.schema_registry import (
    CachedRegistry,
    RegisteredSchema,
    RegistryTarget,
    shown_url,
)
from spark_streamlog.serde.serde_errors import SchemaRegistryError, UnknownSchemaError


class CountingRegistry:
    """Knows the even ids."""

    def __init__(self):
        self.asked = []

    def schema_by_id(self, schema_id):
        self.asked.append(schema_id)
        if schema_id % 2:
            raise UnknownSchemaError(f"{schema_id} is odd")
        return RegisteredSchema(schema_id=schema_id, schema_type="AVRO", text='"int"')


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def cached(clock):
    registry = CountingRegistry()
    return CachedRegistry(registry, now=lambda: clock[0]), registry.asked


def test_a_known_id_is_requested_once(cached):
    registry, asked = cached
    assert registry.schema_by_id(2) == registry.schema_by_id(2)
    assert asked == [2]


def test_an_unknown_id_is_requested_again_after_a_minute(cached, clock):
    registry, asked = cached
    for _ in range(3):
        with pytest.raises(UnknownSchemaError, match="1 is odd"):
            registry.schema_by_id(1)
    assert asked == [1]
    clock[0] = UNKNOWN_SCHEMA_ID_SECONDS
    with pytest.raises(UnknownSchemaError):
        registry.schema_by_id(1)
    assert asked == [1, 1]


def test_too_many_unknown_ids_fail_the_query(cached, clock):
    registry, asked = cached
    for number in range(MAX_UNKNOWN_SCHEMA_IDS):
        with pytest.raises(UnknownSchemaError):
            registry.schema_by_id(2 * number + 1)
    with pytest.raises(SchemaRegistryError, match="the values may belong to another registry") as error:
        registry.schema_by_id(2 * MAX_UNKNOWN_SCHEMA_IDS + 1)
    assert not isinstance(error.value, UnknownSchemaError)
    assert len(asked) == MAX_UNKNOWN_SCHEMA_IDS
    with pytest.raises(SchemaRegistryError, match="the values may belong to another registry"):
        registry.schema_by_id(4)
    clock[0] = UNKNOWN_SCHEMA_ID_SECONDS
    assert registry.schema_by_id(4).schema_id == 4


def test_the_cache_of_schemas_is_bounded(cached):
    registry, asked = cached
    for number in range(MAX_CACHED_SCHEMAS + 1):
        registry.schema_by_id(2 * number)
    assert len(registry._known) <= MAX_CACHED_SCHEMAS
    assert len(asked) == MAX_CACHED_SCHEMAS + 1


def test_no_text_contains_a_password():
    target = RegistryTarget(urls=("https://me:secret@registry:8081/x",), user_info="you:hidden")
    for text in (str(target), repr(target)):
        assert "secret" not in text
        assert "hidden" not in text
    assert str(target) == "https://registry:8081/x"
    assert shown_url("http://a:b@[::1]:80/p") == "http://[::1]:80/p"
    assert shown_url("no url at all") == "://no url at all"


def test_a_target_can_be_pickled_and_has_one_registry_per_process():
    target = RegistryTarget(path="/nowhere/registry.json")
    assert open_registry(pickle.loads(pickle.dumps(target))) is open_registry(target)
