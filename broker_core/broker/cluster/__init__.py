"""A broker of a cluster: its topics, replicas and view of the others come from the cluster's metadata log."""
