import pickle

import pytest

from broker_core.model.exceptions import StreamlogError
from spark_streamlog.errors import ConditionError, with_conditions
from spark_streamlog.serde import serde_errors
from spark_streamlog.serde.serde_errors import CannotSerializeError, SchemaRegistryError, UnknownSchemaError


def test_the_tree_is_the_one_that_is_drawn():
    kinds = [found for found in vars(serde_errors).values() if isinstance(found, type) and found is not StreamlogError]
    assert all(issubclass(kind, StreamlogError) and kind.__name__ in serde_errors.__doc__ for kind in kinds)
    assert issubclass(UnknownSchemaError, SchemaRegistryError)


def test_they_travel_from_tasks_with_their_fields():
    found = pickle.loads(pickle.dumps(CannotSerializeError("m", row=3, reason="r")))
    assert (found.message, found.fields) == ("m", {"row": 3, "reason": "r"})


def test_spark_sees_them_as_conditions():
    with pytest.raises(ConditionError, match=r"\[STREAMLOG_SCHEMA_REGISTRY\] no answer"), with_conditions():
        raise SchemaRegistryError("no answer")
