"""A seed, run with thresholds so small that a run of some hundred steps merges, compacts and removes garbage."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from simulation.objects.object_world import ObjectWorld

from broker_core.model.topic_config import TopicConfig
from broker_core.object_cluster import commit_tail
from broker_core.object_log.commit import Commit

SMALL_RUN = 3


def run_seed(seed: int) -> ObjectWorld:
    """Raises what is wrong; an error that names the seed is the caller's."""
    world = ObjectWorld(seed)
    with (
        patch("broker_core.object_log.maintenance_plan.MIN_MERGED_RANGE_COUNT", SMALL_RUN),
        patch("broker_core.object_cluster.log_maintenance.KEPT_CHECKPOINT_COUNT", 2),
        patch("broker_core.object_cluster.range_rewriter.MIN_FILTERED_RANGE_BYTES", 1),
        patch("broker_core.object_cluster.staged_upload.MIN_FILTERED_UPLOAD_BYTES", 200),
        # A table of 64 MiB for three keys would take longer than all else.
        patch("broker_core.object_cluster.range_rewriter.COMPACTION_MEMORY_BYTES", 64 * 1024),
        patch.object(commit_tail, "decode_commit", _each_once(commit_tail.decode_commit)),
        patch.object(TopicConfig, "from_stored", _each_once_by_items(TopicConfig.from_stored)),
        _without_collections(),
    ):
        world.run()
    return world


def _each_once(decode: Callable[..., Commit]) -> Callable[..., Commit]:
    """A dozen actors decode each commit again and again, a fifth of the time of a run; the value never changes."""
    known: dict[tuple[bytes, object, int], Commit] = {}

    def decode_once(data, *, log_id, number, url=""):
        key = (bytes(data), log_id, number)
        if key not in known:
            known[key] = decode(data, log_id=log_id, number=number, url=url)
        return known[key]

    return decode_once


def _each_once_by_items(parse: Callable[[Mapping[str, str]], TopicConfig]) -> Callable[..., TopicConfig]:
    known: dict[tuple[tuple[str, str], ...], TopicConfig] = {}

    def parse_once(configs: Mapping[str, str]) -> TopicConfig:
        key = tuple(configs.items())
        if key not in known:
            known[key] = parse(configs)
        return known[key]

    return parse_once


@contextmanager
def _without_collections() -> Iterator[None]:
    """A run makes little garbage, and is short."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
