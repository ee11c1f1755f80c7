"""A test's orders for `injected.kill_switch`, and their results."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

HIT_SECONDS = 280


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write of the log to a file whose path matches, the nth one of the process since the step."""

    path: str
    nth: int = 1
    when: str = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillRequest:
    """A request to a broker whose message type matches, the nth one of the process since the step."""

    api: str
    nth: int = 1
    when: str = "before"
    """Or "after": its answer is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRequest:
    """A request to an object store, such as "put_if_absent commits/…" (see `injected.object_requests`), the nth one of
    the process since the step that matches."""

    request: str
    nth: int = 1
    when: str = "before"
    """Or "after": the store has done it, and its answer is not processed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """See `injected.kill_switch`."""

    step: str
    nth: int = 1
    ids: Mapping[str, str] = field(default_factory=dict)
    write: Write | None = None
    request: KillRequest | None = None
    objects: ObjectRequest | None = None
    process: str = ""
    action: str = "kill"
    victims: str = "process"
    seconds: float = 200.0
    """The longest that "wait" waits."""

    def as_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            name: getattr(self, name) for name in ("step", "nth", "process", "action", "victims", "seconds")
        }
        document["ids"] = dict(self.ids)
        if self.write is not None:
            document["write"] = asdict(self.write)
        if self.request is not None:
            document["request"] = asdict(self.request)
        if self.objects is not None:
            document["objects"] = asdict(self.objects)
        return document

    def of(self, victims: str) -> Kill:
        return replace(self, victims=victims)

    def __str__(self) -> str:
        place = self.step
        if self.write is not None:
            place += f", {self.write.when} write {self.write.nth} to {self.write.path}"
        elif self.request is not None:
            place += f", {self.request.when} request {self.request.nth} of {self.request.api}"
        elif self.objects is not None:
            place += f", {self.objects.when} {self.objects.request}, time {self.objects.nth}"
        elif self.nth > 1:
            place += f", time {self.nth}"
        return f"{self.action} {self.victims} at {place}"


class KillFolder:
    """The folder between a test and the kill switches of all processes. It has one order at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def order(
        self,
        *kills: Kill,
        forget_decisions: bool = False,
        note_writes: bool = False,
        maintains_always: bool = False,
    ) -> None:
        """Replaces the last order. No process may be running that the last one could still hit."""
        for old in (*self.path.glob("hit-*"), *self.path.glob("seen-*"), *self.path.glob("go")):
            old.unlink()
        document = {
            "id": str(uuid4()),
            "kills": [kill.as_document() for kill in kills],
            "forget_decisions": forget_decisions,
            "note_writes": note_writes,
            "maintains_always": maintains_always,
        }
        new = self.path / "order.new"
        new.write_text(json.dumps(document))
        new.rename(self.path / "order.json")

    def wait_for_hit(self) -> dict[str, Any]:
        """The first kill's hit. A process that waits there continues with `go`."""
        return self.wait_for_hits(1)[0]

    def wait_for_hits(self, count: int) -> list[dict[str, Any]]:
        until = time.monotonic() + HIT_SECONDS
        while len(found := self.hits()) < count:
            assert time.monotonic() < until, "nobody came by"
            time.sleep(0.005)
        return found

    def go(self) -> None:
        (self.path / "go").touch()

    def hits(self) -> list[dict[str, Any]]:
        """The hits in the order of the kills: step, the step's fields, pid, victims."""
        found = sorted(self.path.glob("hit-*"), key=lambda path: int(path.name.removeprefix("hit-")))
        return [json.loads(path.read_text()) for path in found]

    def passed(self) -> list[dict[str, Any]]:
        """Every step that any process passed under any order, in sequence."""
        try:
            return [json.loads(line) for line in (self.path / "steps.jsonl").read_text().splitlines()]
        except FileNotFoundError:
            return []
