"""Stockroom: carries the log's plans out on files, through `broker_core.ports.FileSystem`."""
