"""Entropy that a test can foretell."""

import itertools


class CountingEntropy:
    """The numbers from `first` on, each as bytes of the length that was asked for."""

    def __init__(self, first=1):
        self._numbers = itertools.count(first)

    def random_bytes(self, count):
        return next(self._numbers).to_bytes(count, "big")
