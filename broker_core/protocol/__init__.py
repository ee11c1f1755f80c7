"""Kafka's wire protocol without sockets: frames, messages by kio's schemas, both sides of a connection, SASL."""
