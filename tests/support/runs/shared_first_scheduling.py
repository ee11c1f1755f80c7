"""Which worker of `pytest -n 3 --dist loadfile` runs which file.

The first worker takes the files that share something slow to start (a Spark session, brokers, stores) one suite after
the other. The other workers begin with the unit tests and come to meet it. So each of these things is started once in
most runs, Spark has a core beside the unit tests, and the two meet at short files and end together.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling

SHARED_FIRST = (
    "tests/spark/",
    "tests/conformance/",
    "tests/remote/",
    "tests/cluster/",
    "tests/clients/",
    "tests/object_stores/",
    "tests/",
    "tests/exactly_once/",
    "tests/fuzz/",
    "tests/unit/",
)
"""Folders in the order of the first worker; a file belongs to the longest one that it is in."""


class SharedFirstScheduling(LoadFileScheduling):
    def _assign_work_unit(self, node: Any) -> None:
        choose = min if node is self.nodes[0] else max
        self.workqueue.move_to_end(choose(self.workqueue, key=rank_of), last=False)
        super()._assign_work_unit(node)


def rank_of(file: str) -> int:
    return SHARED_FIRST.index(max((folder for folder in SHARED_FIRST if file.startswith(folder)), key=len))
