"""Kafka's own command line tools, many of them in one JVM: a process for each would cost a second or two a command.

tests/java_tools/ToolHost.java runs each tool's main method in a thread, with its own input, output and exit status.
"""

from __future__ import annotations

import base64
import itertools
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.brokers.kafka_tools import JARS

SOURCE = Path(__file__).parents[2] / "java_tools" / "ToolHost.java"
SECONDS = 60
# Slow machines are no failure, and an answer of the host itself takes no time.
_LOOK_SECONDS = 30
_TOOL_JARS = ("kafka-tools-", "kafka_2.13-")
_FIRST_TITLES = ("GROUP", "TOPIC", "ID", "TransactionalId", "CoordinatorId", "ProducerId", "Topic")
_PACKAGES = {"ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group", "ConfigCommand": "kafka.admin",
             "ConsoleConsumer": "org.apache.kafka.tools.consumer",
             "ReassignPartitionsCommand": "org.apache.kafka.tools.reassign"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a tool said, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Of its standard output, without empty ones."""
        return [line for line in self.out.splitlines() if line.strip()]


class RunningTool:
    """Begun, not yet waited for."""

    def __init__(self, host: ToolHost, number: str, words: tuple[str, ...]):
        self.words = words
        self._host = host
        self._number = number

    def said(self) -> str:
        """Its standard output so far."""
        return self._host.look(self._number)[0]

    def wait_until(self, is_enough: Callable[[str], object], seconds: float = SECONDS) -> str:
        """Its standard output, as soon as that is enough."""
        deadline = time.monotonic() + seconds
        while not is_enough(out := self.said()):
            assert time.monotonic() < deadline, f"not yet after {seconds} s: {self._host.state(self)}"
            time.sleep(0.05)
        return out

    def stop(self, seconds: float = SECONDS) -> Ended:
        """As SIGTERM does; waits for the end."""
        self._host.send("stop", self._number)
        return self.wait(seconds)

    def wait(self, seconds: float = SECONDS) -> Ended:
        return self._host.ended(self._number, self, seconds)


class ToolHost:
    """One JVM, started when made."""

    def __init__(self, log: Path):
        jars = sorted(JARS.glob("*.jar"))
        tools = [jar for jar in jars if jar.name.startswith(_TOOL_JARS)]
        shared = ":".join(str(jar) for jar in jars if jar not in tools)
        options = ["-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        opened = ["--add-opens", "java.base/java.lang=ALL-UNNAMED"]
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        command = ["java", *options, *opened, quiet, "-cp", shared, str(SOURCE), *map(str, tools)]
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, encoding="utf-8"
        )
        self._numbers = itertools.count(1)
        self._answers: dict[tuple[str, str], queue.Queue[list[str]]] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def begin(self, tool: str, *arguments: object, given: str | bytes = b"") -> RunningTool:
        """`given` is its standard input."""
        number = str(next(self._numbers))
        words = (tool, *map(str, arguments))
        self._answers[("ended", number)] = queue.Queue()
        self._answers[("looks", number)] = queue.Queue()
        given = given.encode() if isinstance(given, str) else given
        name = f"{_PACKAGES.get(tool, 'org.apache.kafka.tools')}.{tool}"
        self.send("run", number, name, _encoded(given), *(_encoded(word.encode()) for word in words[1:]))
        return RunningTool(self, number, words)

    def run(
        self, tool: str, *arguments: object, given: str | bytes = b"", status: int | None = 0, seconds: float = SECONDS
    ) -> Ended:
        """Waits for its end. A status other than `status` fails the caller, unless that is None."""
        ended = self.begin(tool, *arguments, given=given).wait(seconds)
        words = " ".join((tool, *map(str, arguments)))
        assert status is None or ended.status == status, f"{words}\n{ended.status}\n{ended.out}\n{ended.err}"
        return ended

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(_LOOK_SECONDS)
        self._log.close()

    def send(self, *words: str) -> None:
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def look(self, number: str) -> list[str]:
        """Standard output, standard error and where the tool's thread stands."""
        self.send("look", number)
        return [_decoded(word) for word in self._answers[("looks", number)].get(timeout=_LOOK_SECONDS)]

    def state(self, tool: RunningTool) -> str:
        return "\n".join((" ".join(tool.words), *self.look(tool._number)))

    def ended(self, number: str, tool: RunningTool, seconds: float) -> Ended:
        try:
            status, out, err = self._answers[("ended", number)].get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"still there after {seconds} s: {self.state(tool)}") from None
        return Ended(status=int(status), out=_decoded(out), err=_decoded(err))

    def _listen(self) -> None:
        for line in self._process.stdout:
            kind, number, *words = line.split()
            self._answers[(kind, number)].put(words)


def _encoded(data: bytes) -> str:
    """A word is never empty: the sign before it sees to that."""
    return "=" + base64.b64encode(data).decode()


def _decoded(word: str) -> str:
    return base64.b64decode(word[1:]).decode(errors="replace")


class BrokerTools:
    """The tools at one broker: what they need to know of it goes before their own arguments, or after a word like
    `cluster-id` that they want first."""

    def __init__(self, host: ToolHost, bootstrap: str):
        self._host = host
        self._bootstrap = ("--bootstrap-server", bootstrap)

    def begin(self, tool: str, *arguments: object, **given: Any) -> RunningTool:
        return self._host.begin(tool, *self._placed(tool, arguments), **given)

    def run(self, tool: str, *arguments: object, **given: Any) -> Ended:
        return self._host.run(tool, *self._placed(tool, arguments), **given)

    def refused(self, tool: str, *arguments: object) -> str:
        """All that a tool says that ends with status 1."""
        ended = self.run(tool, *arguments, status=1)
        return ended.out + ended.err

    def table(self, tool: str, *arguments: object) -> list[dict[str, str]]:
        """The rows under a line of titles in capitals or between tabs, by title."""
        return table_of(self.run(tool, *arguments))

    def _placed(self, tool: str, arguments: tuple[object, ...]) -> tuple[object, ...]:
        if tool == "ClusterTool":
            return (arguments[0], *self._bootstrap, *arguments[1:])
        return (*self._bootstrap, *arguments)


def table_of(ended: Ended) -> list[dict[str, str]]:
    rows = [line.split("\t") if "\t" in line else line.split() for line in ended.lines]
    starts = [n for n, row in enumerate(rows) if len(row) > 1 and row[0].strip() in _FIRST_TITLES]
    assert starts, ended
    titles = [title.strip() for title in rows[starts[0]] if title.strip()]
    values = rows[starts[0] + 1 :]
    return [dict(zip(titles, map(str.strip, row), strict=False)) for row in values if row[0] not in _FIRST_TITLES]
