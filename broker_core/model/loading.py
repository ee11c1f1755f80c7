"""What a process does not have to wait for while its modules are loaded."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """What is loaded stays: nobody looks for garbage in it, meanwhile (a tenth of a broker's start) or later."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def without_hypothesis() -> Iterator[None]:
    """kio tells hypothesis of its number types wherever that is installed, as it is for tests: 0.1 s of each start, and
    nothing generates values here. A module that is None is one that cannot be imported."""
    if "hypothesis" in sys.modules:
        yield
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["hypothesis"]


@contextmanager
def without_archives() -> Iterator[None]:
    """Spark puts its zips and a jar of its own on the path of each Python process, and a package that asks for its own
    version while it is loaded (crc32c) has their whole directories read for it: 0.05 s. What is imported must not come
    out of an archive, or be loaded already."""
    whole = sys.path
    sys.path = folders_on_path()
    try:
        yield
    finally:
        sys.path = whole


def folders_on_path() -> list[str]:
    """`sys.path` without its archives."""
    return [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
