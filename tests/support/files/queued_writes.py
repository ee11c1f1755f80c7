"""Twin of `broker_core.ports.LoopWrites`: a turn ends when the test says so, and so does a sync."""

from __future__ import annotations

from support.files.queued_jobs import QueuedJobs


class QueuedWrites:
    """`end_turn` runs what was noted for the end of the turn. `syncs` are the syncs, as `QueuedJobs` that no other job
    can hold up."""

    def __init__(self):
        self.syncs = QueuedJobs()
        self._callbacks = []

    def at_end_of_turn(self, callback):
        self._callbacks.append(callback)

    def sync(self, work, on_synced, on_error, *, descriptor=None):
        self.syncs.submit(work, lambda _: on_synced(), on_error)

    def end_turn(self):
        """How many were called. What they note is for the next turn."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        return len(callbacks)

    def run_all(self):
        """Until no turn and no sync is left, those included that come of others; whether there was any."""
        has_run = False
        while self.end_turn() or len(self.syncs):
            self.syncs.run_all()
            has_run = True
        return has_run
