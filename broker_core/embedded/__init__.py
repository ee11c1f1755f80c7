"""The embedded door: a directory that several processes open at once, with no server, as SQLite is used."""
