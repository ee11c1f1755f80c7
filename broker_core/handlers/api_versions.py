"""ApiVersions (18), versions 0 to 4: the supported requests with their versions, and finalized features (KIP-584).

The list comes from `protocol.served_versions`. A request of an unknown version gets an answer of version 0 with
UNSUPPORTED_VERSION and that list. From version 3 on a client sends its name; a name that Kafka would refuse is refused
with INVALID_REQUEST.

Left out on purpose: features of a cluster (kraft.version and the like) until there is one; share and streams groups.
"""

from __future__ import annotations

import re
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.controller.requests.registry import FORWARDED
from broker_core.handlers.call import Call
from broker_core.metadata.metadata_version import METADATA_VERSION_FEATURE, METADATA_VERSION_LEVEL
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.message_builder import build
from broker_core.protocol.served_versions import SERVED_VERSIONS

_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE: Final = 3
_FIRST_VERSION_WITH_FEATURES_FROM_0: Final = 4
"""The first version whose clients accept a feature with a minimum of 0 (KIP-1057)."""

_LOWEST_METADATA_VERSION: Final = 7
_FEATURES: Final = {"group.version": 1, METADATA_VERSION_FEATURE: METADATA_VERSION_LEVEL, "transaction.version": 2}
"""Level of each feature: KIP-848 groups, the metadata log's format, transactions whose every end bumps the epoch."""


def handle(call: Call) -> None:
    if call.version >= _FIRST_VERSION_WITH_SOFTWARE and not _names_itself(call):
        call.respond(error_code=ErrorCode.invalid_request)
        return
    lowest = {METADATA_VERSION_FEATURE: _LOWEST_METADATA_VERSION}
    call.respond(
        api_keys=_served(call),
        supported_features=[
            {"name": name, "min_version": lowest.get(name, 0), "max_version": level}
            for name, level in _FEATURES.items()
            if name in lowest or call.version >= _FIRST_VERSION_WITH_FEATURES_FROM_0
        ],
        finalized_features_epoch=0,
        finalized_features=[
            {"name": name, "min_version_level": level, "max_version_level": level} for name, level in _FEATURES.items()
        ],
    )


def refuse_version(call: Call) -> None:
    """The answer to an unknown version."""
    answer = message_types(ApiKey.API_VERSIONS, 0).response
    call.respond_with(build(answer, {"error_code": ErrorCode.unsupported_version, "api_keys": _served(call)}))


def _served(call: Call) -> list[dict[str, int]]:
    """In a cluster with what the controller answers."""
    served: dict[int, range] = {int(key): versions for key, versions in SERVED_VERSIONS.items()}
    if call.node.controller is not None:
        served |= FORWARDED
    return [
        {"api_key": key, "min_version": versions[0], "max_version": versions[-1]}
        for key, versions in sorted(served.items())
    ]


def _names_itself(call: Call) -> bool:
    texts = (call.message.client_software_name, call.message.client_software_version)
    return all(_SOFTWARE_NAME.fullmatch(text) for text in texts)
