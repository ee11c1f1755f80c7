"""Fetch requests as machines: sessions that say only what changed, and requests that wait for records."""
