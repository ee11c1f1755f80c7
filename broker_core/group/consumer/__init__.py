"""Consumer groups of KIP-848: one heartbeat, assignors on the broker, migration from and to classic groups."""
