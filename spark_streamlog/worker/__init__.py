"""Details of Spark's Python processes: reuse, sockets, memory, planning."""
