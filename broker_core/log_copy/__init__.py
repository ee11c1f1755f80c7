"""Copies topics from one log to another: the plan, the progress, and the writes. All I/O is in the two Clusters."""
