"""The two places of `log copy`: directories, URLs of object storage, or brokers, each as one word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker_core.cli.cluster_place import open_cluster
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.log_directory import open_log
from broker_core.cli.object_place import ObjectUrl, open_object_log
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.log_location import local_directory
from broker_core.model.store_settings import is_object_url

if TYPE_CHECKING:
    from broker_core.cluster import Cluster

_ADDRESS: Final = r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+):\d{1,5}"
_BROKERS: Final = re.compile(f"{_ADDRESS}(,{_ADDRESS})*")


@contextmanager
def open_place(place: str, config: Path | None, *, config_option: str, create: bool = False) -> Iterator[Cluster]:
    """The log while the block runs. HOST:PORT, several separated by commas, is a cluster of brokers; the URL of an
    object store is a log there; anything else is a directory.

    A log on object storage is opened without maintenance: retention must not remove old records while they are copied.
    """
    if _BROKERS.fullmatch(place):
        with open_cluster(None, place, config) as brokers:
            yield brokers
    elif is_object_url(place):
        with open_object_log(ObjectUrl(place), config, create=create, maintains=False) as objects:
            yield objects
    else:
        if config is not None:
            raise UsageError(f"{config_option} needs brokers or the URL of an object store: {place} is a directory")
        with open_log(_directory(place), create=create, way_to_brokers="the HOST:PORT of a broker") as directory:
            yield directory


def _directory(place: str) -> Path:
    try:
        return Path(local_directory(place))
    except InvalidConfigError as error:
        what = "give a directory, the URL of an object store, or HOST:PORT of brokers"
        raise UsageError(f"{error.message}; {what}") from error
