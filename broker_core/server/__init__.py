"""The broker process: sockets, threads and time around `broker.BrokerNode`. The only room that uses asyncio."""
