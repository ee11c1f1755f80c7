"""Which bound a client has: the most specific one that is set for its user, its client id, or both.

    bounds of one key, by (user, client id)        "" : that part is not named;  None : its default

    looked for, in this order                      whose records count together
      (user, client id)                              this user's with this client id
      (user, default client id)                      this user's with this client id
      (user, )                                       all of this user
      (default user, client id)                      this user's with this client id
      (default user, default client id)              this user's with this client id
      (default user, )                               all of this user
      (, client id)                                  all with this client id, whoever they are
      (, default client id)                          all with this client id

As in Kafka a client without a client id has only the bounds of its user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_USER, _CLIENT_ID = "user", "client-id"

EntityQuotas = Mapping[tuple[tuple[str, str | None], ...], Mapping[str, float]]
"""By entity, a tuple of (type, name) sorted by type, then by key: the quotas of the metadata log. The name None is the
default of its type."""


class QuotaClient(NamedTuple):
    """Of a request: the user's name, `ANONYMOUS` without a login, and its client id, which may be empty."""

    user: str
    client_id: str


class ClientBound(NamedTuple):
    """`shared_by` is the same for all clients whose records count together."""

    shared_by: tuple[str, str]
    bound: float


class QuotaTable:
    """The bounds of one key, such as `producer_byte_rate`."""

    def __init__(self, key: str, quotas: EntityQuotas) -> None:
        self._bounds: dict[tuple[str | None, str | None], float] = {}
        for entity, by_key in quotas.items():
            names = dict(entity)
            if key in by_key and (_USER in names or _CLIENT_ID in names):
                self._bounds[names.get(_USER, ""), names.get(_CLIENT_ID, "")] = by_key[key]

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def bound_of(self, client: QuotaClient) -> ClientBound | None:
        user, client_id = client
        of_both, of_user, of_client_id = (user, client_id), (user, ""), ("", client_id)
        if client_id:
            places: tuple[tuple[tuple[str | None, str | None], tuple[str, str]], ...] = (
                (of_both, of_both),
                ((user, None), of_both),
                (of_user, of_user),
                ((None, client_id), of_both),
                ((None, None), of_both),
                ((None, ""), of_user),
                (of_client_id, of_client_id),
                (("", None), of_client_id),
            )
        else:
            places = ((of_user, of_user), ((None, ""), of_user))
        for place, shared_by in places:
            bound = self._bounds.get(place)
            if bound is not None:
                return ClientBound(shared_by, bound)
        return None
