"""One partition on several brokers: its leader, its followers, who is in sync, what is committed."""
