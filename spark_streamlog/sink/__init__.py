"""The sink: writers of tasks and of the driver."""
