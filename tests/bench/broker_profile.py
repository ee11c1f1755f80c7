"""Where our broker's time goes while a bench runs, by py-spy: samples of its busy threads, as folded stacks.

Needs py-spy on the PATH or beside this Python, and the right to look at processes of one's own.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_SECONDS = 600
SHOWN = 12
_WAITING = {"_worker", "select", "wait", "_wait_for_tstate_lock"}


@contextmanager
def profiled(pid: int, path: Path) -> Iterator[None]:
    """Writes folded stacks of the body's time to `path`. Raises FileNotFoundError without py-spy."""
    program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        raise FileNotFoundError("profiles need py-spy: pip install py-spy")
    path.parent.mkdir(parents=True, exist_ok=True)
    what = ["--pid", str(pid), "--threads", "--duration", str(LONGEST_SECONDS)]
    command = [program, "record", *what, "--format", "raw", "--output", str(path)]
    recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait(60)


def busiest(path: Path) -> list[str]:
    """Lines about the functions that most samples were in, in themselves and with what they called.

    Waiting is left out, but for the disk.
    """
    own: Counter[str] = Counter()
    within: Counter[str] = Counter()
    total = 0
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [frame.rpartition(":")[0] + ")" if ":" in frame else frame for frame in stack.split(";")]
        if frames[-1].partition(" ")[0].rpartition(".")[2] in _WAITING:
            continue
        total += int(count)
        own[frames[-1]] += int(count)
        for frame in set(frames):
            within[frame] += int(count)
    lines = [f"        {total} samples; share in the function itself, and with its callees"]
    for frame, count in own.most_common(SHOWN):
        lines.append(f"        {count / total:6.1%} {within[frame] / total:6.1%}  {frame}")
    return lines
