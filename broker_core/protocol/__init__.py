"""Kafka's wire protocol without sockets: frames, messages over kio's schemas, both sides of a connection, SASL."""
