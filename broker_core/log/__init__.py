"""Machines of one partition's log: what to append where, what to keep, what to drop. No files, no clock, no dice."""
