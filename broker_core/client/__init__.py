"""The door to a broker: `Cluster` over sockets, blocking, with retries, TLS and SASL."""
