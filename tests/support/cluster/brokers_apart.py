"""A cluster whose brokers have no vote: a controller in a process of its own, and brokers that follow its quorum."""

from __future__ import annotations

import itertools
from pathlib import Path

from support.brokers.reachable_broker import free_ports
from support.cluster.tested_cluster import TestedCluster
from support.quorum.our_quorum import OurQuorum

from broker_core.server.local.cluster_layout import ClusterLayout, NodePlace
from broker_core.server.local.local_cluster import LocalCluster
from broker_core.server.local.local_settings import local_settings
from broker_core.server.local.node_process import start_program

FIRST_ID = 101
_NOT_FOR_CONTROLLERS = {"process.roles", "node.id", "listeners", "log.dirs", "controller.quorum.voters"}


def start_without_cluster_id(arguments, log):
    """A node that has to ask the controllers for it."""
    place = arguments.index("--cluster-id")
    return start_program([*arguments[:place], *arguments[place + 2 :]], log)


class BrokersApart(TestedCluster):
    """Brokers 101, 102, …; `controllers` are an `OurQuorum`."""

    def __init__(self, folder: Path, *, broker_count=3, controller_count=1, **settings):
        ids = range(FIRST_ID, FIRST_ID + broker_count)
        ports = dict(zip(ids, free_ports(broker_count), strict=True))
        given = {**local_settings(FIRST_ID, dict.fromkeys(ids, 0), port=0, path=""), **settings}
        shared = {name: value for name, value in given.items() if name not in _NOT_FOR_CONTROLLERS}
        lines = [f"{name}={value}" for name, value in shared.items()]
        self.controllers = OurQuorum(folder / "controllers", node_count=controller_count, settings=lines)
        places = []
        for node_id in ids:
            place = NodePlace(
                node_id=node_id,
                folder=folder / str(node_id),
                port=ports[node_id],
                controller_port=self.controllers.ports[1],
            )
            place.folder.mkdir(parents=True)
            own = [
                "process.roles=broker", f"node.id={node_id}", f"log.dirs={place.data_path}",
                f"listeners=OUTSIDE://127.0.0.1:0,PLAINTEXT://127.0.0.1:{place.port}",
                "inter.broker.listener.name=PLAINTEXT",
                "listener.security.protocol.map=OUTSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                f"controller.quorum.bootstrap.servers={self.controllers.bootstrap_controllers}",
            ]  # fmt: skip
            mine = [line for line in lines if not line.startswith("listener.security")]
            place.properties_path.write_text("\n".join([*mine, *own]) + "\n")
            places.append(place)
        layout = ClusterLayout(cluster_id=self.controllers.cluster_id, nodes=tuple(places))
        LocalCluster.__init__(self, layout, start_process=start_without_cluster_id)
        self._names = itertools.count()

    def start(self):
        for node_id in self.controllers.node_ids:
            if not self.controllers.is_running(node_id):
                self.controllers.start(node_id)
        super().start()

    def kill(self):
        super().kill()
        self.controllers.__exit__()
