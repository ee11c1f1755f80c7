"""What brokers, controllers and tools ask an active controller, one file for each request or family of requests."""
