"""The quotas of clients as stored in the metadata log: only replay changes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from broker_core.metadata.metadata_records import ClientQuotaRecord

QuotaEntity = tuple[tuple[str, str | None], ...]
"""(type, name), sorted by type: `user`, `client-id`, `ip`. The name None is the default of that type."""


class ClientQuotas:
    """By entity, then by key such as `producer_byte_rate`. An entity without any quota is not kept."""

    def __init__(self) -> None:
        self._by_entity: dict[QuotaEntity, dict[str, float]] = {}
        self.change_count = 0
        """Grows with each change."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientQuotas) and self._by_entity == other._by_entity

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def by_entity(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        return MappingProxyType(self._by_entity)

    def copy(self) -> ClientQuotas:
        other = ClientQuotas()
        other._by_entity = {entity: quotas.copy() for entity, quotas in self._by_entity.items()}
        return other

    def replay(self, record: ClientQuotaRecord) -> None:
        self.change_count += 1
        by_type = {part.entity_type: part.entity_name for part in record.entity}
        entity: QuotaEntity = tuple((kind, by_type[kind]) for kind in sorted(by_type))
        quotas = self._by_entity.get(entity, {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if quotas:
            self._by_entity[entity] = quotas
        else:
            self._by_entity.pop(entity, None)
