"""versitygw, an S3 server on this machine, and proxies before it: where a log on object storage is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from support.objects.s3_servers import BUCKET, S3Server, find_versitygw, versitygw

LOG_URL = f"s3://{BUCKET}/log"


def why_no_object_storage() -> str | None:
    """None where versitygw is."""
    if find_versitygw() is not None:
        return None
    return "versitygw is missing: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0"


class DelayingProxy:
    """`delay_proxy_program` as a process."""

    def __init__(self, server: S3Server, delay_ms: int, environment: dict[str, str]) -> None:
        words = json.dumps({"port": server.port, "delay_ms": delay_ms})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.delay_proxy_program", words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.port = int(self._answer()["port"])

    @property
    def pid(self) -> int:
        return self._process.pid

    def take_counts(self) -> dict[str, int]:
        """Requests and bytes since the last call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _answer(self) -> dict[str, int]:
        assert self._process.stdout is not None
        return dict(json.loads(self._process.stdout.readline()))


class ObjectStorage:
    """One server for a run. All contenders share the log; each proxy is started when it is first asked for."""

    def __init__(self, folder: Path, environment: dict[str, str], on_process: Callable[[str, int], None]) -> None:
        """`on_process(name, pid)`: of the server and each proxy."""
        folder.mkdir(parents=True)
        self._stack = ExitStack()
        self._environment = environment
        self._on_process = on_process
        self._server = self._stack.enter_context(versitygw(folder))
        on_process("versitygw", self._server.pid)
        self._proxies: dict[int, DelayingProxy] = {}

    def options(self, delay_ms: int) -> dict[str, str]:
        """Options of readers and writers; without a delay there is no proxy."""
        if not delay_ms:
            return self._server.options()
        return self.options_through(self.proxy(delay_ms))

    def options_through(self, proxy: DelayingProxy) -> dict[str, str]:
        return self._server.options(endpoint=f"http://127.0.0.1:{proxy.port}")

    def proxy(self, delay_ms: int) -> DelayingProxy:
        """With 0 ms it only counts."""
        if delay_ms not in self._proxies:
            proxy = DelayingProxy(self._server, delay_ms, self._environment)
            self._stack.callback(proxy.close)
            self._on_process(f"proxy of {delay_ms} ms", proxy.pid)
            self._proxies[delay_ms] = proxy
        return self._proxies[delay_ms]

    def close(self) -> None:
        self._stack.close()
