"""Certificates as TLS contexts, for every door that has a socket; what a failed handshake means."""
