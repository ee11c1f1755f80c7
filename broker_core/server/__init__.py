"""A broker as a process: sockets, threads and time around `broker.BrokerNode`. The only room with asyncio."""
