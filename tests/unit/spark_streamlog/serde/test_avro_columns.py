import pyarrow as pa

from spark_streamlog.serde.avro_columns import MapColumn, column_for
from spark_streamlog.serde.avro_schema import parse_avro_schema


def column_of(schema):
    return column_for(parse_avro_schema(schema))


def test_truncate_rolls_back_what_a_corrupt_value_added():
    node = parse_avro_schema('{"type":"array","items":{"type":"map","values":"int"}}')
    column = column_for(node)
    inner: MapColumn = column.items
    for numbers in ([1, 2], [3]):
        for number in numbers:
            inner.keys.append(b"k")
            inner.items.values.append(number)
            inner.item_count += 1
        inner.close_row()
        column.item_count += 1
        column.close_row()
    # A third row breaks off in the middle: two keys, one value, no end of the map or of the array.
    inner.keys += [b"x", b"y"]
    inner.items.values.append(9)
    column.truncate(1)
    column.add_null()
    array = column.take()
    array.validate(full=True)
    assert array.type == node.arrow_type
    assert array.to_pylist() == [[[("k", 1), ("k", 2)]], None]


def test_take_leaves_the_column_empty():
    column = column_of('{"type":"record","name":"r","fields":[{"name":"a","type":["null","int"]}]}')
    column.add_null()
    assert column.take().to_pylist() == [None]
    column.children[0].values.append(5)
    column.validity.append(True)
    assert column.take().to_pylist() == [{"a": 5}]
    assert column.take().to_pylist() == []


def test_decimals_keep_every_digit():
    column = column_of('{"type":"bytes","logicalType":"decimal","precision":38,"scale":10}')
    numbers = [10**38 - 1, -(10**38) + 1, 0, None]
    column.values += numbers
    array = column.take()
    array.validate(full=True)
    assert [str(number) for number in array] == [
        "9999999999999999999999999999.9999999999",
        "-9999999999999999999999999999.9999999999",
        "0E-10",
        "None",
    ]


def test_a_record_without_fields_has_rows():
    column = column_of('{"type":"record","name":"r","fields":[]}')
    column.validity += [True, True]
    column.add_null()
    assert column.take().equals(pa.array([{}, {}, None], pa.struct([])))
