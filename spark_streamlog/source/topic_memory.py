"""Remembers the topic ids of a checkpoint's offsets, to detect across restarts that a topic was deleted and recreated.

Spark stores only the offsets of a source, in the form of its Kafka connector. So the ids are stored separately: in the
checkpoint's directory, if the option checkpointLocation names a local one, and in the metadata of the offsets that the
query commits for its group (option groupId).

Both are keyed by offsets and written before the offsets are returned to Spark, hence before Spark logs them:

    latest_offset(start)     remember start and end with their ids ─► return end ─► Spark logs end
    after a crash            Spark continues from start, or from end: the ids of both are known

If the ids could not be stored, or were lost, the query continues as if the topics were the same.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

from broker_core.model.log_location import local_directory
from spark_streamlog.checkpoint import query_id_of
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.stream_offset import StreamOffset
from spark_streamlog.planning.subscription import subscription_text
from spark_streamlog.planning.topic_ids import VectorTopics, digest_of, from_document, to_document

logger = logging.getLogger("spark_streamlog")

FOLDER: Final = "streamlog"
FILE: Final = "topic-ids.json"

KEPT_VECTORS: Final = 200
"""Spark keeps a hundred batches (spark.sql.streaming.minBatchesToRetain), to which a checkpoint can be reset."""

_Vectors = dict[str, dict[str, UUID]]


class TopicMemory(Protocol):
    def ids_at(self, offsets: StreamOffset) -> Mapping[str, UUID]:
        """The ids of the topics when these offsets were remembered; unknown topics are missing."""
        ...

    def remember(self, vectors: Sequence[VectorTopics]) -> None:
        """Stored when it returns; otherwise it logs a warning with the reason."""
        ...


def memory_of(options: ReadOptions) -> CheckpointMemory | None:
    """None if the source has no checkpoint on this machine; a warning is logged if it has one elsewhere."""
    location = options.checkpoint_location
    if location is None:
        return None
    query_id = query_id_of(location)
    if query_id is None:
        logger.warning(
            "The source stores no topic ids in checkpointLocation=%s, because it is not a query's checkpoint on a "
            "local file system. If a topic is deleted and recreated while the query is not running, the query may "
            "not detect it",
            location,
        )
        return None
    return CheckpointMemory(
        Path(local_directory(location)) / FOLDER,
        query_id=query_id,
        target=str(options.target),
        source=subscription_text(options.subscription),
    )


class CheckpointMemory:
    """In `<checkpoint>/streamlog/topic-ids.json`, for all sources of the query that use it:

        {"query": "<query id>", "sources": {"<digest of a source>": {"ids": [...], "vectors": {...}}}}

    Each source writes its own part, under a lock, and reads all parts: a source that subscribes to more topics than
    before finds its old ids. The file is replaced atomically, so a crash leaves the old one or the new one.
    """

    def __init__(self, folder: Path, *, query_id: str, target: str, source: str) -> None:
        self._folder = folder
        self._query_id = query_id
        self._target = target
        self._source = digest_of({}, f"{target} {source}")
        self._written: _Vectors = {}
        self._has_warned = False

    def ids_at(self, offsets: StreamOffset) -> Mapping[str, UUID]:
        try:
            sources = self._read()
        except OSError as error:
            self._warn(error)
            return {}
        own = sources.pop(self._source, {})
        digest = digest_of(offsets, self._target)
        return next((each[digest] for each in (own, *sources.values()) if digest in each), {})

    def remember(self, vectors: Sequence[VectorTopics]) -> None:
        found = {digest_of(each.offsets, self._target): dict(each.topic_ids) for each in vectors}
        if all(self._written.get(digest) == ids for digest, ids in found.items()):
            return
        try:
            with self._locked():
                sources = self._read()
                kept = {digest: ids for digest, ids in sources.get(self._source, {}).items() if digest not in found}
                newest = list((kept | found).items())[-KEPT_VECTORS:]
                self._write(sources | {self._source: dict(newest)})
        except OSError as error:
            self._warn(error)
        else:
            self._written = dict(newest)

    def _read(self) -> dict[str, _Vectors]:
        try:
            document = json.loads((self._folder / FILE).read_bytes())
            if document["query"] != self._query_id:
                return {}
            return {str(source): from_document(part) for source, part in document["sources"].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            self._warn(error)
            return {}

    def _write(self, sources: Mapping[str, _Vectors]) -> None:
        parts = {source: to_document(vectors.items()) for source, vectors in sources.items()}
        text = json.dumps({"query": self._query_id, "sources": parts}, separators=(",", ":"))
        temporary = self._folder / f"{FILE}.tmp"
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, self._folder / FILE)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(exist_ok=True)
        with open(self._folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            logger.warning("The topic ids of the query cannot be stored in %s: %s", self._folder / FILE, error)
        self._has_warned = True
