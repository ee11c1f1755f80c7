"""The directory of a cluster on this machine. It is made once, and every start finds the same ports.

<dir>/cluster.properties            cluster.id, and the ids of the nodes; written last
<dir>/node-1/server.properties      settings of the node, with Kafka's names; may be edited while it is down
<dir>/node-1/node.pid               its process, while it runs
<dir>/node-1/node.log               what the node says, of all its starts
<dir>/node-1/data                   its log directory, as of any broker
"""

from __future__ import annotations

import os
import random
import socket
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from broker_core.model.exceptions import DirectoryFormatError, InvalidConfigError
from broker_core.model.properties import parse_properties
from broker_core.model.setting_parsers import int_parser, items_of
from broker_core.server.local.local_settings import ADDRESS, local_settings

MAX_NODES: Final = 9
CLUSTER_FILE: Final = "cluster.properties"
_FIRST_PORT: Final = 19_092
_PORTS: Final = range(10_000, 32_000)
"""Below the ports that Linux and macOS give to outgoing connections: a node that is down keeps its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """A node's id and its folder; `port` is the one for clients, `controller_port` that of the quorum."""

    node_id: int
    folder: Path
    port: int
    controller_port: int

    @property
    def properties_path(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log_path(self) -> Path:
        return self.folder / "node.log"

    @property
    def pid_path(self) -> Path:
        return self.folder / "node.pid"

    @property
    def data_path(self) -> Path:
        return self.folder / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    cluster_id: str
    nodes: tuple[NodePlace, ...]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{ADDRESS}:{node.port}" for node in self.nodes)


def free_ports(count: int, *, first: int | None = None) -> list[int]:
    """Ports of this machine that nobody listens on: from `first` on, or anywhere."""
    found: list[int] = []
    for port in _candidates(first):
        if _is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise InvalidConfigError(f"{count} free ports are needed on {ADDRESS}, and there are {len(found)}")


def open_layout(
    path: Path,
    *,
    node_count: int | None = None,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    is_port_random: bool = False,
) -> ClusterLayout:
    """Of the cluster in that directory, which is made with three nodes if None are asked for and it is not there yet.

    The brokers of a new cluster listen on `port` and those after it, else on free ones. `settings` override those of
    `local_settings`, for a new cluster only. Raises DirectoryFormatError and InvalidConfigError."""
    path = path.absolute()
    if not (path / CLUSTER_FILE).exists():
        _make(path, node_count or 3, port, dict(settings or {}), is_port_random=is_port_random)
    return _read(path, node_count, port)


def _make(path: Path, node_count: int, port: int | None, settings: Mapping[str, str], *, is_port_random: bool) -> None:
    if not 1 <= node_count <= MAX_NODES:
        raise InvalidConfigError(f"{node_count} nodes: a local cluster has 1 to {MAX_NODES}")
    if "," in str(path):
        raise InvalidConfigError(f"{path} has a comma, which separates directories in log.dirs", setting="log.dirs")
    path.mkdir(parents=True, exist_ok=True)
    others = [each.name for each in path.iterdir() if not each.name.startswith("node-")]
    if others:
        raise DirectoryFormatError(f"{path} is not empty and is no local cluster: it has {min(others)}")
    ports = _ports_of_new(node_count, port, is_port_random=is_port_random)
    places = [
        NodePlace(node_id=number, folder=path / f"node-{number}", port=own, controller_port=controller)
        for number, (own, controller) in enumerate(zip(ports[:node_count], ports[node_count:], strict=True), 1)
    ]
    voters = {place.node_id: place.controller_port for place in places}
    for place in places:
        place.folder.mkdir(exist_ok=True)
        lines = local_settings(place.node_id, voters, port=place.port, path=str(place.data_path))
        place.properties_path.write_text(_properties({**lines, **settings}))
    ids = ",".join(str(place.node_id) for place in places)
    begun = path / f"{CLUSTER_FILE}.new"
    begun.write_text(_properties({"cluster.id": _new_cluster_id(), "node.ids": ids}))
    begun.replace(path / CLUSTER_FILE)


def _ports_of_new(node_count: int, port: int | None, *, is_port_random: bool) -> list[int]:
    """Of the brokers, then of the controllers."""
    if port is None:
        return free_ports(2 * node_count, first=None if is_port_random else _FIRST_PORT)
    wanted = list(range(port, port + node_count))
    taken = next((each for each in wanted if not _is_free(each)), None)
    if taken is not None:
        raise InvalidConfigError(f"{ADDRESS}:{taken} is in use: the brokers need {port} to {wanted[-1]}")
    return wanted + free_ports(node_count, first=wanted[-1] + 1)


def _read(path: Path, node_count: int | None, port: int | None) -> ClusterLayout:
    given = parse_properties((path / CLUSTER_FILE).read_text())
    if not given.get("cluster.id") or not given.get("node.ids"):
        raise DirectoryFormatError(f"{path / CLUSTER_FILE} needs cluster.id and node.ids")
    places = tuple(_read_node(path / f"node-{number}") for number in items_of(given["node.ids"]))
    if node_count not in (None, len(places)):
        raise InvalidConfigError(
            f"{path} is a cluster of {len(places)} nodes, and its voters are fixed: for {node_count} take another"
            " directory"
        )
    if port not in (None, places[0].port):
        raise InvalidConfigError(
            f"{path} is a cluster whose first broker listens on {places[0].port}: its ports stay as they are"
        )
    return ClusterLayout(cluster_id=given["cluster.id"], nodes=places)


def _read_node(folder: Path) -> NodePlace:
    path = folder / "server.properties"
    given = parse_properties(path.read_text())
    number = int(str(int_parser(1)("node.id", given.get("node.id", ""))))
    ports = {
        item.partition("://")[0]: item.rpartition(":")[2]
        for item in items_of(given.get("listeners", ""))
        if item.rpartition(":")[2].isdecimal()
    }
    if not {"PLAINTEXT", "CONTROLLER"} <= set(ports):
        raise InvalidConfigError(f"{path}: listeners needs PLAINTEXT and CONTROLLER with a port", setting="listeners")
    place = NodePlace(
        node_id=number, folder=folder, port=int(ports["PLAINTEXT"]), controller_port=int(ports["CONTROLLER"])
    )
    if given.get("log.dirs") != str(place.data_path):
        raise InvalidConfigError(
            f"{path} has log.dirs={given.get('log.dirs')}: it must be {place.data_path}, also after the directory was"
            " moved",
            setting="log.dirs",
        )
    return place


def _candidates(first: int | None) -> Iterator[int]:
    if first is not None:
        yield from range(first, 65_536)
    else:
        start = random.choice(_PORTS)
        yield from range(start, _PORTS.stop)
        yield from range(_PORTS.start, start)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            return False
        return True


def _new_cluster_id() -> str:
    """As `kafka-storage random-uuid` makes them: 22 characters, the first one no dash."""
    while (text := urlsafe_b64encode(uuid4().bytes)[:22].decode()).startswith("-"):
        pass
    return text


def _properties(settings: Mapping[str, str]) -> str:
    lines = (f"{name}={value}".replace("\\", "\\\\") for name, value in settings.items())
    return "".join(f"{line}{os.linesep}" for line in lines)
