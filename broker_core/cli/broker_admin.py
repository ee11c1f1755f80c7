"""`streamlog broker list | unregister`: the brokers of a cluster."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from broker_core.cli.admin_place import Servers, open_admin_at
from broker_core.cli.cluster_place import CommandConfig
from broker_core.model.client_settings import BrokerAddress

if TYPE_CHECKING:
    from broker_core.client.cluster_admin import RegisteredBroker
    from broker_core.client.partition_placements import PartitionPlacement

LIST_EXAMPLE: Final = "Example: streamlog broker list --bootstrap-server localhost:9092"
UNREGISTER_EXAMPLE: Final = "Example: streamlog broker unregister 3 --bootstrap-server localhost:9092"

_Row = tuple[int, str | None, int | None, str | None, str]
"""Id, host, port, rack, state. Hosts, ports and racks are not known of one that is gone."""


def list_brokers(
    bootstrap_server: Servers = None,
    command_config: CommandConfig = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the brokers of a cluster, how many partitions each leads and holds, and how many replicas are not in sync.

    A fenced broker is registered and not alive. One that is gone holds replicas, and is not registered; where brokers
    do not tell of fenced ones (Kafka before 4.0), it may be fenced.
    """
    # Imported here, so that `streamlog broker` starts fast.
    from broker_core.cli.screen import Column, show_json, show_table

    with open_admin_at(bootstrap_server, command_config) as admin:
        brokers, placements = admin.brokers(), admin.placements()
    counts = _counts(placements)
    held_by = {replica for each in placements for replica in each.replicas}
    gone = sorted(held_by - {broker.broker_id for broker in brokers})
    rows = sorted(
        [*map(_row, brokers), *((broker_id, None, None, None, "gone") for broker_id in gone)], key=lambda row: row[0]
    )
    if as_json:
        show_json([_as_json(row, counts) for row in rows])
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
                str(broker_id),
                "-" if host is None else BrokerAddress(host=host, port=port or 0),
                rack or "-",
                state,
                *(counts[broker_id, what] for what in ("led", "held", "out_of_sync")),
            )
            for broker_id, host, port, rack, state in rows
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
    from broker_core.cli.screen import note

    note(f"unregistered broker {broker_id}")


def _counts(placements: list[PartitionPlacement]) -> Counter[tuple[int, str]]:
    counts: Counter[tuple[int, str]] = Counter()
    for each in placements:
        counts[each.leader_id, "led"] += 1
        counts.update((replica, "held") for replica in each.replicas)
        counts.update((replica, "out_of_sync") for replica in each.replicas if replica not in each.isr)
    return counts


def _row(broker: RegisteredBroker) -> _Row:
    state = "fenced" if broker.is_fenced else "running"
    return (broker.broker_id, broker.address.host, broker.address.port, broker.rack, state)


def _as_json(row: _Row, counts: Counter[tuple[int, str]]) -> dict[str, Any]:
    broker_id, host, port, rack, state = row
    return {
        "broker_id": broker_id,
        "host": host,
        "port": port,
        "rack": rack,
        "state": state,
        "led_partitions": counts[broker_id, "led"],
        "held_partitions": counts[broker_id, "held"],
        "out_of_sync_partitions": counts[broker_id, "out_of_sync"],
    }
