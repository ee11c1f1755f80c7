"""What settings in the metadata log belong to."""

from __future__ import annotations

import enum


class ConfigResource(enum.IntEnum):
    """The resource type of a ConfigRecord."""

    TOPIC = 2
    BROKER = 4
    """By its id; "" stands for all brokers."""
    GROUP = 32
