"""Storage: applies the log's plans to files, through `broker_core.ports.FileSystem`."""
