"""Which brokers get the replicas of new partitions: striped over racks, as Kafka's StripedReplicaPlacer does it.

    racks in order, from one that the dice choose     partition k begins at the next rack
    in each rack, its live brokers first, in order    the next partition begins at the next broker;
    from one that the dice choose                     a round later they are shuffled, so that followers spread
    the first replica has to live                     else it is the first live broker of the racks that follow

Brokers without a rack are one rack. Fenced brokers get replicas where the live ones of a rack are used up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from broker_core.model.exceptions import RequestRefusedError
from broker_core.ports import Entropy

_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceableBroker:
    broker_id: int
    rack: str | None
    is_fenced: bool


def place_replicas(
    brokers: Iterable[PlaceableBroker], *, partition_count: int, factor: int, entropy: Entropy
) -> list[tuple[int, ...]]:
    """The replicas of each partition. Raises RequestRefusedError with INVALID_REPLICATION_FACTOR."""
    usable = list(brokers)
    if factor <= 0:
        raise _refused(factor, f"Invalid replication factor {factor}: the replication factor must be positive.")
    if not any(not broker.is_fenced for broker in usable):
        raise _refused(factor, "All brokers are currently fenced.")
    if factor > len(usable):
        raise _refused(
            factor,
            f"The target replication factor of {factor} cannot be reached because only {len(usable)} broker(s) are"
            " registered.",
        )
    racks = _Racks(usable, entropy)
    return [racks.place(factor) for _ in range(partition_count)]


def _refused(factor: int, reason: str) -> RequestRefusedError:
    return RequestRefusedError(
        f"Unable to replicate the partition {factor} time(s): {reason}", error_code=ErrorCode.invalid_replication_factor
    )


class _Racks:
    def __init__(self, brokers: Sequence[PlaceableBroker], entropy: Entropy) -> None:
        by_name: dict[str, list[PlaceableBroker]] = {}
        for broker in brokers:
            by_name.setdefault(broker.rack or "", []).append(broker)
        self._racks = [_Rack(by_name[name], entropy) for name in sorted(by_name)]
        self._at = _below(len(self._racks), entropy)

    def place(self, factor: int) -> tuple[int, ...]:
        racks = self._racks[self._at :] + self._racks[: self._at]
        self._at = (self._at + 1) % len(racks)
        for rack in racks:
            rack.begin()
        first_rack = next(rack for rack in racks if rack.has_live)
        placed = [first_rack.next_live()]
        sources: Iterator[_Rack] = self._in_turn(racks, first_rack)
        while len(placed) < factor:
            found = next(sources).next()
            if found is not None:
                placed.append(found)
        return tuple(placed)

    @staticmethod
    def _in_turn(racks: Sequence[_Rack], first: _Rack) -> Iterator[_Rack]:
        """Round and round; in the first round without the rack that the first replica has."""
        yield from (rack for rack in racks if rack is not first)
        while True:
            yield from racks


class _Rack:
    def __init__(self, brokers: Sequence[PlaceableBroker], entropy: Entropy) -> None:
        self._live = _Stripe([each.broker_id for each in brokers if not each.is_fenced], entropy)
        self._fenced = _Stripe([each.broker_id for each in brokers if each.is_fenced], entropy)

    @property
    def has_live(self) -> bool:
        return bool(self._live.brokers)

    def begin(self) -> None:
        self._live.begin()
        self._fenced.begin()

    def next_live(self) -> int:
        found = self._live.next()
        assert found is not None
        return found

    def next(self) -> int | None:
        found = self._live.next()
        return self._fenced.next() if found is None else found


class _Stripe:
    """Brokers in a circle; each partition begins one further."""

    def __init__(self, brokers: Sequence[int], entropy: Entropy) -> None:
        self.brokers = sorted(brokers)
        self._entropy = entropy
        self._start = _below(len(self.brokers), entropy) if self.brokers else 0
        self._taken = 0

    def begin(self) -> None:
        self._taken = 0
        if self.brokers:
            self._start = (self._start + 1) % len(self.brokers)
            if self._start == 0:
                _shuffle(self.brokers, self._entropy)

    def next(self) -> int | None:
        if self._taken >= len(self.brokers):
            return None
        self._taken += 1
        return self.brokers[(self._start + self._taken - 1) % len(self.brokers)]


def _shuffle(items: list[int], entropy: Entropy) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = _below(last + 1, entropy)
        items[last], items[other] = items[other], items[last]


def _below(bound: int, entropy: Entropy) -> int:
    return int.from_bytes(entropy.random_bytes(_NUMBER_BYTES), "big") % bound
