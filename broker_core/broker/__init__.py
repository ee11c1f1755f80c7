"""One broker node: topics, replicas, coordinators, settings. Has no sockets, threads or clock of its own."""
