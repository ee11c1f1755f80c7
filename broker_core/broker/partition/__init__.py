"""Replicas of one node: append queues, open readers, maintenance."""
