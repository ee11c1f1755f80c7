"""One node put together from machines and the stockroom: no sockets, no threads, no clock of its own."""
