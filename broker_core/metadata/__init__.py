"""The cluster's metadata: KRaft's records, the image that they add up to, and the controller that writes them."""
