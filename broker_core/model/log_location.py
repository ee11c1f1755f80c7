"""Where a log directory is, as a user writes it. The only place that decides which URLs are directories.

    /data/log, data/log      a directory of this machine
    file:///data/log         the same; %20 stands for a space, as in every URL
    file:/data/log           the same: Spark writes some paths so
    hdfs:///log, …           refused by name

The URL of a log on object storage (s3://, gs://, az://, objects:///, …) is no directory: check it with
`store_settings.is_object_url` first.

A scheme is two letters or more, followed by a colon. Write ./ before the name of a folder that looks like that.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from broker_core.model.exceptions import InvalidConfigError

LOCAL_SCHEME: Final = "file"
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_THIS_MACHINE: Final = frozenset({"", "localhost"})


def scheme_of(location: str) -> str:
    """`file`, `hdfs`, `s3a`, … in lower case; empty for a plain path. One letter and a colon are a drive."""
    found = _SCHEME.match(location)
    return found[1].lower() if found else ""


def local_directory(location: str) -> str:
    """The path on this machine, relative where the location is.

    Raises InvalidConfigError, whose message begins with the location, for what is not a path of this machine. The
    caller adds which option it was and what to give instead.
    """
    if "\0" in location:
        raise InvalidConfigError(f"{location!r} contains a zero byte, which is not allowed in a path")
    scheme = scheme_of(location)
    if not scheme:
        return location
    if scheme != LOCAL_SCHEME:
        is_url = location[len(scheme) + 1 :].startswith("/")
        hint = (
            "the URL of a log begins with file:///, or with s3:// or another object store's scheme"
            if is_url
            else f"write ./{location} for a local folder of that name"
        )
        raise InvalidConfigError(f"{location} is not a local directory ({hint})")
    return _path_of_file_url(location)


def _path_of_file_url(location: str) -> str:
    try:
        parts = urlsplit(location)
    except ValueError as error:
        raise InvalidConfigError(f"{location} is not a URL: {error}") from error
    if parts.netloc.lower() not in _THIS_MACHINE:
        raise InvalidConfigError(
            f"{location} refers to the machine {parts.netloc}: a local path has three slashes, "
            f"file:///{parts.netloc}{parts.path}"
        )
    if parts.query or parts.fragment:
        raise InvalidConfigError(f"{location} has a query or a fragment: write ? as %3F and # as %23")
    path = unquote(parts.path, errors="surrogateescape")
    if not path.startswith("/"):
        raise InvalidConfigError(
            f"{location} is not an absolute path: write file:///data/log, or the path without file:"
        )
    if "\0" in path:
        raise InvalidConfigError(f"{location} contains a zero byte, which is not allowed in a path")
    return path
