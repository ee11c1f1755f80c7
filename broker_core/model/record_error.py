"""Why one record of a batch was refused (KIP-467): its producer can send the others again without it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordError:
    """`index`: of the record in its batch; of an append that holds several batches, in all of them together."""

    index: int
    message: str
