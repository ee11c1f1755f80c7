"""Typed values and their bytes: Arrow in, Arrow out. Knows no Spark.

    format_settings    what a side's format is, frozen; it travels to the tasks
    value_formats      settings -> decoder or encoder
    decoded_values     what a decoder gives: a column, and a reason for each row that could not be read
    fixed_width        Kafka's short, int, long, float and double
    utf8_strings       Kafka's strings
    json_*             JSON texts: in bulk by pyarrow, one by one where that cannot judge; written in bulk
    avro_*             the schema as a tree, reading and writing value by value into columns, schema evolution
    protobuf_*         descriptors, messages to columns and back
    confluent_wire     magic byte, schema id, message indexes
    *_registry         schemas by id and by subject: over HTTP or in a JSON file

A null value is null on both sides. Bytes are never trusted: a length or a count is held against the bytes that are
left before anything is made of it, and what is left over makes a value corrupt.
"""
