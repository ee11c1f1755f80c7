"""State machines of a partition's log: what to append where, what to keep and what to drop. No files, clock or
randomness."""
