"""Which driver planned a micro-batch, for `abort`: a note between two processes of one Spark application.

Spark plans a micro-batch in one Python process and aborts it in another, which gets the messages of the tasks that
returned. If none has returned, as when the first failing task stops the others, no message names the driver whose
transactions must be ended. Both processes get the same directory from Spark, in SPARK_LOCAL_DIRS: this run of the
driver creates it, for itself alone, and removes it at its end. So a note there cannot be another driver's. A wrong note
would do no harm either: a driver that was fenced ends nothing.

The note is an optimization. If it cannot be written or read, open transactions end at the query's next start or by
their timeout.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict
from pathlib import Path

from broker_core.cluster import TransactionalProducer

_LOCAL_DIRECTORIES = "SPARK_LOCAL_DIRS"

logger = logging.getLogger(__name__)


def store_driver(query_id: str, driver: TransactionalProducer) -> None:
    """Replaces an earlier note about the query."""
    path = _path_of(query_id)
    if path is None:
        return
    half_written = path.with_suffix(f".{os.getpid()}")
    try:
        half_written.write_text(json.dumps(asdict(driver)))
        half_written.replace(path)
    except OSError as error:
        logger.warning("The driver of query %s could not be stored: %s", query_id, error)


def stored_driver(query_id: str) -> TransactionalProducer | None:
    """None: this run of the Spark driver has written no note."""
    path = _path_of(query_id)
    if path is None:
        return None
    try:
        fields = json.loads(path.read_text())
        return TransactionalProducer(
            transactional_id=str(fields["transactional_id"]),
            producer_id=int(fields["producer_id"]),
            producer_epoch=int(fields["producer_epoch"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _path_of(query_id: str) -> Path | None:
    folder = os.environ.get(_LOCAL_DIRECTORIES, "").split(",")[0]
    return Path(folder) / f"streamlog-driver-{query_id}.json" if folder else None
