"""What a command does not have to wait for while its modules are loaded."""

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
