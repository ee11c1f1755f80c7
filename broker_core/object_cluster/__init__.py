"""A log on object storage: `Cluster`, staged writes and planned reads over an `ObjectStore`."""
