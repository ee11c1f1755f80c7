"""One log directory: its lock, identity, topics, folders and partitions."""
