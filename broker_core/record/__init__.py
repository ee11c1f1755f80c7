"""Record batches of format v2 as bytes and as Arrow columns. Pure: no files, no clock, no randomness.

`batch_header`, `batch_reader`, `batch_builder` and `control_records` work one batch or one record at a time, for
coordinators, recovery and tools. `columns` is the fast path of readers and writers: whole buffers of batches to Arrow
and back, by the native `kernel` or its slow twin `pure_kernel`. `compression` has the four codecs with their size
limits."""
