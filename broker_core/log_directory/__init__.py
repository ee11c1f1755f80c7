"""One log directory and what is in it: lock, identity, topics, folders, partitions. For the doors that hold files."""
