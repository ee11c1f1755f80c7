"""What a broker is set to that nobody configured: on this machine only, and quick where Kafka is patient."""

from __future__ import annotations


def development_settings(path: str, *, port: int) -> dict[str, str]:
    """A broker of the log at `path`, on a port of 127.0.0.1; 0: a free one."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": path,
        # As in the configuration that Kafka's quick start uses: there is nobody else to wait for.
        "group.initial.rebalance.delay.ms": "0",
    }
