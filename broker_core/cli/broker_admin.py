"""`streamlog broker list | unregister`: the brokers of a cluster."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from broker_core.cli.admin_place import Servers, open_admin_at
from broker_core.cli.cluster_place import CommandConfig
from broker_core.cli.screen import Column, note, show_json, show_table

if TYPE_CHECKING:
    from broker_core.client.cluster_admin import RegisteredBroker
    from broker_core.client.partition_placements import PartitionPlacement

LIST_EXAMPLE: Final = "Example: streamlog broker list --bootstrap-server localhost:9092"
UNREGISTER_EXAMPLE: Final = "Example: streamlog broker unregister 3 --bootstrap-server localhost:9092"

_STATES: Final = {True: "fenced", False: "running", None: "running"}


def list_brokers(
    bootstrap_server: Servers = None,
    command_config: CommandConfig = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the brokers of a cluster, how many partitions each leads and holds, and how many replicas are not in sync.

    A fenced broker is registered and not alive. Brokers of Kafka before 4.0 do not tell of those.
    """
    with open_admin_at(bootstrap_server, command_config) as admin:
        brokers, placements = admin.brokers(), admin.placements()
    counts = _counts(placements)
    if as_json:
        show_json([_as_json(broker, counts) for broker in brokers])
        return
    show_table(
        [
            Column(heading="broker", is_number=True),
            Column(heading="address"),
            Column(heading="rack"),
            Column(heading="state"),
            *(Column(heading=heading, is_number=True) for heading in ("led", "held", "out of sync")),
        ],
        [
            (
                str(broker.broker_id),
                broker.address,
                broker.rack or "-",
                _STATES[broker.is_fenced],
                *(counts[broker.broker_id, what] for what in ("led", "held", "out_of_sync")),
            )
            for broker in brokers
        ],
    )


def unregister(
    broker_id: Annotated[int, typer.Argument(metavar="ID", min=0, help="The broker's id.", show_default=False)],
    bootstrap_server: Servers = None,
    command_config: CommandConfig = None,
) -> None:
    """Make a cluster forget a broker that is gone for good.

    Move its replicas away first (streamlog partitions reassign): partitions keep them in their assignment. A broker
    that still runs has to be started again before it is part of the cluster.
    """
    with open_admin_at(bootstrap_server, command_config) as admin:
        admin.unregister(broker_id)
    note(f"unregistered broker {broker_id}")


def _counts(placements: list[PartitionPlacement]) -> Counter[tuple[int, str]]:
    counts: Counter[tuple[int, str]] = Counter()
    for each in placements:
        counts[each.leader_id, "led"] += 1
        counts.update((replica, "held") for replica in each.replicas)
        counts.update((replica, "out_of_sync") for replica in each.replicas if replica not in each.isr)
    return counts


def _as_json(broker: RegisteredBroker, counts: Counter[tuple[int, str]]) -> dict[str, Any]:
    return {
        "broker_id": broker.broker_id,
        "host": broker.address.host,
        "port": broker.address.port,
        "rack": broker.rack,
        "state": _STATES[broker.is_fenced],
        "led_partitions": counts[broker.broker_id, "led"],
        "held_partitions": counts[broker.broker_id, "held"],
        "out_of_sync_partitions": counts[broker.broker_id, "out_of_sync"],
    }
