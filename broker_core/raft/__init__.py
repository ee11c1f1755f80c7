"""The metadata quorum (KRaft) as machines: its events and effects, and the observer that follows it."""
