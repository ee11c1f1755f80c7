"""Copies topics from one log to another: what is copied, where it goes on, and how it is written. No I/O of its own."""
