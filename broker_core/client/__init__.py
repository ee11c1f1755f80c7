"""The remote door: `Cluster` at a broker, over blocking sockets, with retries, TLS and SASL."""
