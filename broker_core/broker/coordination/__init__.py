"""Coordinators of groups and transactions on one node."""
