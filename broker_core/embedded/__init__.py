"""The embedded cluster: several processes open one directory at once, without a server, as with SQLite."""
