"""A node of a cluster: a voter of its quorum and a broker, in one process, with the links to the other nodes."""
