"""Committed offsets of groups: requests, state, expiration."""
