"""Typed values and their bytes: Arrow in, Arrow out. Independent of Spark.

    format_settings    the format of one side of a record, frozen; travels to the tasks
    value_formats      settings -> decoder or encoder
    decoded_values     what a decoder returns: a column, and a reason for each row that could not be read
    fixed_width        Kafka's short, int, long, float and double
    utf8_strings       Kafka's strings
    json_*             JSON texts: read in bulk by pyarrow, and one by one where that is not certain; written in bulk
    avro_*             the schema as a tree, reading and writing value by value into columns, schema evolution
    protobuf_*         descriptors, messages to columns and back
    confluent_wire     magic byte, schema id, message indexes
    *_registry         schemas by id and by subject: over HTTP or in a JSON file

A null value is null on both sides. Bytes are never trusted: a length or a count is compared with the bytes that are
left before it is used, and extra bytes after the end make a value corrupt.
"""
