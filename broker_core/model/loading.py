"""Faster imports: skips work that a process does not need while its modules are loaded."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Imported modules stay, so they are excluded from garbage collection: during the import (a tenth of a broker's
    start) and later."""
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
    """kio registers its number types with hypothesis if that is installed, which costs 0.1 s of each start. A module
    that is None cannot be imported, so kio skips it."""
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
    """Spark puts zips and a jar on the path of each Python process, and a package that reads its own version at import
    (crc32c) reads their whole directories: 0.05 s. Imports inside must not come from an archive, unless already
    loaded."""
    whole = sys.path
    sys.path = folders_on_path()
    try:
        yield
    finally:
        sys.path = whole


def folders_on_path() -> list[str]:
    """`sys.path` without its archives."""
    return [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
