"""Ends a process at a step of the exactly-once protocol, as a test ordered it.

The steps come as log records of the sink (`spark_streamlog.exactly_once.steps`): a logging handler is all there is to
install, in this process and, by the fork, in those that it forks. Nothing of the product is imported before it logs a
step. A folder says what to do and keeps what was done:

    order.json      {"id": text, "kills": [kill, ...], "forget_decisions": false, "note_writes": false,
                     "maintains_always": false}
    hit-<i>         kill number i was carried out: where, and on whom
    seen-<i>-<k>    the k-th time that the step of kill i came by, in whatever process
    steps.jsonl     every step that any process passed, in order

Each kill is carried out once, and of several that are due at one point the first. A kill is

    step        the step's name, TASK_APPENDED say; "*" is any
    nth         at its nth coming; 1 is the first
    ids         {field: regular expression} that the step's fields must match
    write       {"path": regular expression, "nth": 1, "when": "before" | "torn" | "after"}: from the step on, the
                process dies at its nth write to such a file instead of at the step
    request     {"api": regular expression, "nth": 1, "when": "before" | "after"}: the same for requests to a broker
    objects     {"request": regular expression, "nth": 1, "when": "before" | "after"}: the same for requests to an
                object store, see `object_requests`. With the step "" from the start of a process that is watched
    process     regular expression that the process's command line must match
    action      "kill" (SIGKILL), "stop" (SIGSTOP: a zombie that may be woken), "wait" (for the file `go`), "go"
                (makes it) or "raise" (an error in the process)
    victims     "process": the one that passes the step; "executor": the JVM above it, too; "driver": that JVM, the
                Python program that started it, and the process
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if __package__:
    from exactly_once.injected import object_requests
else:
    import object_requests

STEP_LOGGER = "spark_streamlog.exactly_once"
WATCHED_FROM_START = "STREAMLOG_WATCH_OBJECTS"
"""The variable of processes that are watched before they pass a step: those of the source pass none."""
BEGINNINGS = ("PLANNING", "TASK_STARTED", "COMMITTING", "ABORTING")
"""The first step of each thing that a process does for a sink."""


def install(folder: str) -> KillSwitch:
    switch = KillSwitch(Path(folder))
    steps = logging.getLogger(STEP_LOGGER)
    steps.setLevel(logging.DEBUG)
    steps.addHandler(switch)
    return switch


class KillSwitch(logging.Handler):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._order_id: str | None = None
        self._armed: dict[int, dict] = {}
        self._seen: Counter[int] = Counter()
        self._notes_writes = False
        self._watches_writes = False
        self._watches_requests = False
        self._watches_objects = False
        self._replaced: list[tuple[object, str, object]] = []
        self._seen_from_start: Counter[tuple[str, int]] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        step = record.step.name
        fields = {name: str(value) for name, value in record.ids.items()}
        self._note(step=step, package=sys.modules["spark_streamlog"].__file__, **fields)
        order = self._order()
        if step in BEGINNINGS:
            self._order_id = order.get("id")
            self._armed.clear()
        elif order.get("id") != self._order_id:
            # Left over from a run before the order: another process is meant, which would not be hit then.
            return
        self._set_forgetful(bool(order.get("forget_decisions")))
        if step in BEGINNINGS and "broker_core.object_cluster" in sys.modules:
            object_requests.set_maintenance(is_always=bool(order.get("maintains_always")))
        self._notes_writes = bool(order.get("note_writes"))
        if self._notes_writes:
            self._watch_writes()
        for number, kill in enumerate(order.get("kills", [])):
            if not self._is_done(number) and _is_meant(kill, step, fields) and _is_in(kill):
                self._step_came_by(number, kill, step=step, **fields)

    def _step_came_by(self, number: int, kill: dict, **where: str) -> None:
        if "write" in kill or "request" in kill or "objects" in kill:
            self._armed[number] = kill
            self._seen[number] = 0
            if "write" in kill:
                self._watch_writes()
            elif "request" in kill:
                self._watch_requests()
            else:
                self.watch_objects()
        elif self._coming(number) == kill.get("nth", 1):
            self._carry_out(number, kill, **where)

    # -- what was ordered --

    def _order(self) -> dict:
        try:
            return json.loads((self._folder / "order.json").read_text())
        except FileNotFoundError:
            return {}

    def _is_done(self, number: int) -> bool:
        return (self._folder / f"hit-{number}").exists()

    def _coming(self, number: int) -> int:
        """How often this kill's step came by, this time included. Processes that come at once get different answers."""
        count = 1
        while not self._claim(f"seen-{number}-{count}"):
            count += 1
        return count

    def _claim(self, name: str, text: str = "") -> bool:
        """Creates the file, unless another process was faster. It is visible only as a whole."""
        draft = self._folder / f"draft-{os.getpid()}"
        draft.write_text(text)
        try:
            os.link(draft, self._folder / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    # -- what is done --

    def _carry_out(self, number: int, kill: dict, **where: str) -> None:
        action = kill.get("action", "kill")
        victims = _victims(kill.get("victims", "process")) if action in ("kill", "stop") else []
        done = json.dumps({**where, "pid": os.getpid(), "action": action, "victims": victims})
        if not self._claim(f"hit-{number}", done):
            return
        if action == "wait":
            self._wait_for(self._folder / "go", seconds=kill["seconds"])
            return
        if action == "go":
            (self._folder / "go").touch()
            return
        if action == "raise":
            raise OSError("a test wanted this to fail")
        for victim in victims:  # this process is the last one
            os.kill(victim, signal.SIGSTOP if action == "stop" else signal.SIGKILL)

    @staticmethod
    def _wait_for(file: Path, *, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not file.exists():
            assert time.monotonic() < until, f"nobody said {file}"
            time.sleep(0.005)

    def _note(self, **what: object) -> None:
        line = json.dumps({**what, "pid": os.getpid(), "at": round(time.time(), 4)}) + "\n"
        descriptor = os.open(self._folder / "steps.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, line.encode())
        os.close(descriptor)

    # -- writes and requests: in the midst of what is done for a step --

    def _watch_writes(self) -> None:
        if self._watches_writes:
            return
        self._watches_writes = True
        from broker_core.storage.os_file_system import OsFile

        write = OsFile.write_at

        def write_at(file, position, data):
            if self._notes_writes:
                self._note(write="/".join(file.path.rsplit("/", 2)[1:]), position=position, length=len(data))
            number, kill = self._due_at("write", "path", file.path)
            when = "" if kill is None else kill["write"].get("when", "before")
            place = {"write": file.path, "when": when}
            if when == "before":
                self._carry_out(number, kill, **place)
            if when == "torn":
                write(file, position, bytes(data)[: len(data) // 2])
                self._carry_out(number, kill, **place)
            write(file, position, data)
            if when == "after":
                self._carry_out(number, kill, **place)

        OsFile.write_at = write_at

    def _watch_requests(self) -> None:
        if self._watches_requests:
            return
        self._watches_requests = True
        from broker_core.client.broker_connection import BrokerConnection

        ask = BrokerConnection.ask

        def watched_ask(connection, requests, deadline):
            api = type(requests[0]).__name__
            number, kill = self._due_at("request", "api", api)
            when = "" if kill is None else kill["request"]["when"]
            if when == "before":
                self._carry_out(number, kill, request=api, when=when)
            answers = ask(connection, requests, deadline)
            if when == "after":
                self._carry_out(number, kill, request=api, when=when)
            return answers

        BrokerConnection.ask = watched_ask

    def watch_objects(self) -> None:
        if not self._watches_objects:
            self._watches_objects = True
            object_requests.watch(self._around_object_request)

    @contextmanager
    def _around_object_request(self, request: str) -> Iterator[None]:
        """One that the store refuses has no "after": a commit whose number another writer took is sent again."""
        self._carry_out_due_at_object_request(request, "before")
        yield
        self._carry_out_due_at_object_request(request, "after")

    def _carry_out_due_at_object_request(self, request: str, when: str) -> None:
        number, kill = self._due_at("objects", "request", request, when=when)
        if kill is None:
            number, kill = self._due_from_start(request, when)
        if kill is not None:
            self._carry_out(number, kill, objects=request, when=when)

    def _due_from_start(self, request: str, when: str) -> tuple[int, dict | None]:
        order = self._order()
        for number, kill in enumerate(order.get("kills", [])):
            if kill["step"] or kill["objects"]["when"] != when or self._is_done(number) or not _is_in(kill):
                continue
            if re.search(kill["objects"]["request"], request):
                seen = (order["id"], number)
                self._seen_from_start[seen] += 1
                if self._seen_from_start[seen] == kill["objects"]["nth"]:
                    return number, kill
        return -1, None

    def _due_at(self, kind: str, pattern: str, place: str, *, when: str | None = None) -> tuple[int, dict | None]:
        if self._armed and self._order().get("id") != self._order_id:
            self._armed.clear()
        for number, kill in self._armed.items():
            if kind not in kill or self._is_done(number) or (when is not None and kill[kind]["when"] != when):
                continue
            if re.search(kill[kind][pattern], place):
                self._seen[number] += 1
                if self._seen[number] == kill[kind].get("nth", 1):
                    return number, kill
        return -1, None

    # -- the negative control --

    def _set_forgetful(self, is_forgetful: bool) -> None:
        """Whether this process finds no decision, as if the log remembered none. Spark reuses it for later queries."""
        if is_forgetful == bool(self._replaced):
            return
        for owner, name, original in self._replaced:
            setattr(owner, name, original)
        self._replaced.clear()
        if not is_forgetful:
            return
        from spark_streamlog.exactly_once import sink_driver, staged_sink, task_transaction

        for owner, name in (
            (staged_sink, "committed_version"),
            (staged_sink.StagedDriver, "_version_of"),
            (sink_driver, "find_decision"),
            (task_transaction, "find_decision"),
        ):
            self._replaced.append((owner, name, getattr(owner, name)))
            setattr(owner, name, lambda *_, **__: None)


def _is_meant(kill: dict, step: str, fields: dict[str, str]) -> bool:
    if kill["step"] not in (step, "*"):
        return False
    return all(re.search(pattern, fields.get(name, "")) for name, pattern in kill.get("ids", {}).items())


def _is_in(kill: dict) -> bool:
    """Whether it is meant for a process with this command line."""
    return re.search(kill.get("process", ""), " ".join(sys.orig_argv)) is not None


def _victims(kind: str) -> list[int]:
    here = os.getpid()
    if kind == "process":
        return [here]
    virtual_machine = _virtual_machine_above(here)
    if kind == "executor":
        return [virtual_machine, here]
    assert kind == "driver", kind
    return [_parent_of(virtual_machine), virtual_machine, here]


def _virtual_machine_above(pid: int) -> int:
    while pid > 1:
        pid = _parent_of(pid)
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            return pid
    raise AssertionError("no JVM above this process")


def _parent_of(pid: int) -> int:
    # The name in front may hold spaces and brackets: what counts stands behind its last bracket.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
