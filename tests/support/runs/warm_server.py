"""Runs `streamlog` in forks of this process, which has loaded its modules: most of what a start costs.

python warm_server.py DESCRIPTOR       a listening Unix socket; ends when standard input does

client    connects; sends stdin, stdout and stderr as descriptors, and what to run, as one JSON line
server    sends the process id, and when the process has ended its status, each as a little-endian int32
client    hangs up before that: the process is killed
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
from importlib import import_module

NUMBER = struct.Struct("<i")
REQUEST_BYTES = 1024 * 1024


def load():
    from broker_core.model.loading import without_collections, without_hypothesis

    with without_collections(), without_hypothesis():
        for name in (
            "broker_core.cli.command_line",
            "broker_core.cli.broker_command",
            "broker_core.cli.consume_command",
            "broker_core.cli.produce_command",
            "broker_core.embedded.embedded_cluster",
            "broker_core.server.broker_process",
            "broker_core.server.cluster.cluster_process",
            "broker_core.server.development",
        ):
            import_module(name)
    assert threading.active_count() == 1, "a fork would have one thread only"


class Server:
    def __init__(self, listener):
        self._listener = listener
        self._running = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._on_client)
        self._selector.register(sys.stdin, selectors.EVENT_READ, self._on_hang_up_of_all)

    def run(self):
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _on_client(self):
        client, _ = self._listener.accept()
        text, descriptors, _, _ = socket.recv_fds(client, REQUEST_BYTES, 3)
        while not text.endswith(b"\n"):
            text += client.recv(REQUEST_BYTES)
        pid = os.fork()
        if pid == 0:
            run_child(json.loads(text), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        client.sendall(NUMBER.pack(pid))
        self._running[pid] = client, os.pidfd_open(pid)
        for each in self._running[pid]:
            self._selector.register(each, selectors.EVENT_READ, lambda: self._on_news(pid))

    def _on_news(self, pid):
        """The process has ended, or its client has hung up."""
        client, ended = self._running.pop(pid, (None, None))
        if client is None:
            return  # both at once
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(OSError):
            client.sendall(NUMBER.pack(status))
        for each in (client, ended):
            self._selector.unregister(each)
        client.close()
        os.close(ended)

    def _on_hang_up_of_all(self):
        for pid in list(self._running):
            self._on_news(pid)
        sys.exit()


def run_child(request, descriptors):
    """Never returns. The process is as one that was started: its signals, its folder, its end."""
    status = 1
    try:
        os.setsid()
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
        os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv[1:] = request["arguments"]
        import_module("broker_core.cli.main").main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    signal.signal(signal.SIGINT, signal.default_int_handler)
    load()
    Server(socket.socket(fileno=int(sys.argv[1]))).run()
