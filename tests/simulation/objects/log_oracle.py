"""The log as it must be, from the objects in the store alone: another reading of the commits, record by record.

It knows nothing of images, plans and codecs: JSON is parsed as it comes, batches are decoded one record after the
other. Every commit is applied at the step that made it, and whatever breaks a promise raises `BrokenPromise`:

    commits are numbered without gaps; each (application, version) is committed once, versions ascend
    appended offsets are dense; what is referenced exists, then and as long as it is referenced
    replacing ranges changes no record (of a compacted topic: not what is newest of any key)
    a log start passes no offset that a live pin was promised for
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from support.objects.in_memory_objects import InMemoryObjects

from broker_core.record.batch_reader import iter_headers, records_of

PIN = "streamlog-pin-until:"


class BrokenPromise(Exception):
    """What no log may do."""


def require(is_true: bool, what: str) -> None:
    if not is_true:
        raise BrokenPromise(what)


@dataclass
class OraclePartition:
    """`records` are those that can be read; `ever` are all that were: offset to (key, value)."""

    log_start_offset: int = 0
    log_end_offset: int = 0
    records: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    ever: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    ranges: list[tuple[int, int, str]] = field(default_factory=list)
    """(base, end, object)."""


class LogOracle:
    def __init__(self, store: InMemoryObjects, *, now_ms, pin_margin_ms: int) -> None:
        self._store = store
        self._now_ms = now_ms
        self._pin_margin_ms = pin_margin_ms
        self.number = 0
        self._next_path = f"commits/{1:020d}"
        self.topics: dict[str, dict] = {}
        self.topic_ids: set[str] = set()
        """Of all topics that there ever were."""
        self.partitions: dict[tuple[str, int], OraclePartition] = {}
        self.apps: dict[str, list[tuple[int, str]]] = {}
        self.live: dict[str, int] = {}
        self.entered: set[str] = set()
        self.ends: list[dict[tuple[str, int], int]] = [{}]

    def catch_up(self) -> None:
        """Applies the commits that are new in the store."""
        while (data := self._store.objects.get(self._next_path)) is not None:
            self._apply(json.loads(data)["commit"])
            self._next_path = f"commits/{self.number + 1:020d}"

    def on_delete(self, path: str) -> None:
        self.catch_up()
        require(path not in self.live, f"{path} was removed, and the log refers to it")
        require(not path.startswith("commits/"), f"{path} was removed")

    def topic_id(self, name: str) -> str | None:
        return next((topic_id for topic_id, topic in self.topics.items() if topic["name"] == name), None)

    def committed_values(self) -> list[bytes]:
        """Of all records that there ever were in topics that still exist."""
        return [value for partition in self.partitions.values() for _, value in partition.ever.values()]

    # -- commits --

    def _apply(self, commit: dict) -> None:
        self.number += 1
        require(commit["number"] == self.number, f"commit {self.number} says it is {commit['number']}")
        app = commit.get("app")
        if app is not None:
            history = self.apps.setdefault(app["id"], [])
            require(
                not history or history[-1][0] < app["version"],
                f"version {app['version']} of {app['id']} was committed behind {history}",
            )
            history.append((app["version"], app["note"]))
        entering: set[str] = set()
        for change in commit["changes"]:
            getattr(self, f"_on_{change['kind']}")(change, entering)
        require(not entering & self.entered, f"commit {self.number} refers to {entering & self.entered} again")
        self.entered |= entering
        ends = {place: partition.log_end_offset for place, partition in self.partitions.items()}
        if ends != self.ends[-1]:
            self.ends.append(ends)

    def _on_put_topic(self, change: dict, entering: set[str]) -> None:
        self.topics[change["id"]] = change
        self.topic_ids.add(change["id"])
        for number in range(change["partitions"]):
            self.partitions.setdefault((change["id"], number), OraclePartition())

    def _on_delete_topic(self, change: dict, entering: set[str]) -> None:
        del self.topics[change["id"]]
        for place in [place for place in self.partitions if place[0] == change["id"]]:
            for _, _, name in self.partitions.pop(place).ranges:
                self._release(name)

    def _on_append(self, change: dict, entering: set[str]) -> None:
        for topic, number, name, position, size, offsets, records, *_ in change["ranges"]:
            name = change["objects"][name]
            partition = self.partitions[(change["topics"][topic], number)]
            base = partition.log_end_offset
            found = self._records(name, position, size, base)
            require(
                sorted(found) == list(range(base, base + offsets)) and len(found) == records,
                f"commit {self.number} appends {sorted(found)} at {base}, it says {offsets}",
            )
            partition.records |= found
            partition.ever |= found
            partition.ranges.append((base, base + offsets, name))
            partition.log_end_offset = base + offsets
            self._refer(name, entering)

    def _on_replace(self, change: dict, entering: set[str]) -> None:
        partition = self.partitions[(change["topic"], change["partition"])]
        begin, end = change["from"], change["until"]
        gone = [one for one in partition.ranges if begin <= one[0] < end]
        require(
            bool(gone) and gone[0][0] == begin and max(one[1] for one in gone) == end,
            f"commit {self.number} replaces [{begin}, {end}) of {partition.ranges}",
        )
        found: dict = {}
        made = []
        for base, name, position, size, offsets, *_ in change["ranges"]:
            found |= self._records(name, position, size, base)
            made.append((base, base + offsets, name))
            self._refer(name, entering)
        before = {offset: row for offset, row in partition.records.items() if begin <= offset < end}
        after = {**{o: r for o, r in partition.records.items() if not begin <= o < end}, **found}
        if "compact" in self.topics[change["topic"]]["configs"].get("cleanup.policy", ""):
            require(found.items() <= before.items(), f"commit {self.number}: compaction made records up")
            require(_newest(after) == _newest(partition.records), f"commit {self.number}: compaction lost a key")
        else:
            require(found == before, f"commit {self.number}: a merge of [{begin}, {end}) changed records")
        partition.records = after
        partition.ranges = sorted([one for one in partition.ranges if one not in gone] + made)
        for _, _, name in gone:
            self._release(name)

    def _on_log_start(self, change: dict, entering: set[str]) -> None:
        place = (change["topic"], change["partition"])
        partition = self.partitions[place]
        offset = change["offset"]
        for group, pinned_offset, until_ms in self._pins_at(place):
            is_live = until_ms > self._now_ms() + self._pin_margin_ms
            require(
                not (is_live and pinned_offset < offset),
                f"commit {self.number} moves the log start to {offset}, {group} pins {pinned_offset} until {until_ms}",
            )
        partition.log_start_offset = offset
        gone = [one for one in partition.ranges if one[1] <= offset]
        partition.ranges = [one for one in partition.ranges if one[1] > offset]
        for _, _, name in gone:
            self._release(name)

    def _on_pin(self, change: dict, entering: set[str]) -> None:
        pass

    def _on_horizon(self, change: dict, entering: set[str]) -> None:
        pass

    def _pins_at(self, place: tuple[str, int]) -> list[tuple[str, int, int]]:
        """(group, offset, until when): what the groups' objects promise at this step."""
        found = []
        for path, data in self._store.objects.items():
            if path.startswith("groups/"):
                group = json.loads(data)["group"]
                for topic_id, partition, offset, _, _, metadata in group["offsets"]:
                    if (topic_id, partition) == place and metadata.startswith(PIN):
                        found.append((group["id"], offset, int(metadata.removeprefix(PIN))))
        return found

    def _refer(self, name: str, entering: set[str]) -> None:
        require(name in self._store.objects, f"commit {self.number} refers to {name}, which is not there")
        self.live[name] = self.live.get(name, 0) + 1
        entering.add(name)

    def _release(self, name: str) -> None:
        self.live[name] -= 1
        if not self.live[name]:
            del self.live[name]

    def _records(self, name: str, position: int, size: int, base: int) -> dict:
        require(name in self._store.objects, f"commit {self.number} refers to {name}, which is not there")
        data = self._store.objects[name][position : position + size]
        require(len(data) == size, f"{name} ends before {position + size}")
        return {
            base + record.offset: (record.key, record.value)
            for place, _ in iter_headers(data)
            for record in records_of(data, place)
        }


def _newest(records: dict) -> dict:
    return {key: value for _, (key, value) in sorted(records.items())}
