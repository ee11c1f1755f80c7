import pickle

import pytest

from broker_core.model.exceptions import StreamlogError
from spark_streamlog.errors import ConditionError, with_conditions
from spark_streamlog.serde import serde_errors
from spark_streamlog.serde.serde_errors import CannotSerializeError, SchemaRegistryError, UnknownSchemaError


def test_the_exception_tree_equals_the_drawn_one():
    kinds = [found for found in vars(serde_errors).values() if isinstance(found, type) and found is not StreamlogError]
    assert all(issubclass(kind, StreamlogError) and kind.__name__ in serde_errors.__doc__ for kind in kinds)
    assert issubclass(UnknownSchemaError, SchemaRegistryError)


def test_errors_can_be_pickled_with_their_fields():
    found = pickle.loads(pickle.dumps(CannotSerializeError("m", row=3, reason="r")))
    assert (found.message, found.fields) == ("m", {"row": 3, "reason": "r"})


def test_each_error_becomes_a_condition():
    with pytest.raises(ConditionError, match=r"\[STREAMLOG_SCHEMA_REGISTRY\] no answer"), with_conditions():
        raise SchemaRegistryError("no answer")
