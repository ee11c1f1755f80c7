"""A seed, run with thresholds so small that a run of some hundred steps merges, compacts and removes garbage."""

from __future__ import annotations

from unittest.mock import patch

from simulation.objects.object_world import ObjectWorld

SMALL_RUN = 3


def run_seed(seed: int) -> ObjectWorld:
    """Raises what is wrong; an error that names the seed is the caller's."""
    world = ObjectWorld(seed)
    with (
        patch("broker_core.object_log.maintenance_plan.MIN_MERGED_RANGE_COUNT", SMALL_RUN),
        patch("broker_core.object_cluster.log_maintenance.KEPT_CHECKPOINT_COUNT", 2),
        # A table of 64 MiB for three keys would take longer than all else.
        patch("broker_core.object_cluster.range_rewriter.COMPACTION_MEMORY_BYTES", 64 * 1024),
    ):
        world.run()
    return world
