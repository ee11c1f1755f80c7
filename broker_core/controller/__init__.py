"""The controller of a cluster: what becomes of brokers and partitions, as plans on the image of the metadata log."""
