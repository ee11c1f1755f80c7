"""Paths as Spark hands them over: `/data/log`, or `file:/data/log` where it has made a URI of one."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit


def scheme_of(location: str) -> str:
    """`file`, `hdfs`, `s3a`, …; empty for a plain path. (One letter and a colon are no scheme but a drive.)"""
    return urlsplit(location).scheme if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", location) else ""


def local_path(location: str) -> str | None:
    """The path on this machine; None for a location that lies elsewhere."""
    scheme = scheme_of(location)
    if not scheme:
        return location
    return unquote(urlsplit(location).path) if scheme == "file" else None
