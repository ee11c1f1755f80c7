"""Settings of a broker that was started without a configuration: on this machine only, and without Kafka's delays."""

from __future__ import annotations


def development_settings(path: str, *, port: int) -> dict[str, str]:
    """Settings of a broker with the log at `path`, on a port of 127.0.0.1; 0 chooses a free one."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": path,
        # As in the configuration of Kafka's quick start: there are no other members to wait for.
        "group.initial.rebalance.delay.ms": "0",
    }
