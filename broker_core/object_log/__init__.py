"""The state machine of a log on object storage: commits, the image they produce, and plans. No I/O or randomness."""
