"""Record room: v2 record batches as bytes, and as Arrow columns. Pure: no file, no clock, no dice.

`batch_header`, `batch_reader`, `batch_builder` and `control_records` work one batch or one record at a time, for
coordinators, recovery and tools. `columns` is the fast path of readers and writers: whole buffers of batches to Arrow
and back, by the native `kernel` or its slow twin `pure_kernel`. `compression` holds the four codecs with their bounds.
"""
