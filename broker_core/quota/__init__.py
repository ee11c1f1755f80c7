"""Quotas of clients as machines: how much a client has used, and how long it is throttled when that is too much."""
