"""What is particular to Spark's Python processes: reuse, sockets, memory, planning."""
