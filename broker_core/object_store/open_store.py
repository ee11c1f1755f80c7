"""Chooses the store for a URL."""

from __future__ import annotations

from collections.abc import Mapping

from broker_core.model.store_settings import FOLDER_SCHEME, parse_store_settings
from broker_core.ports import ObjectStore


def open_store(url: str, options: Mapping[str, str] | None = None) -> ObjectStore:
    """Sends no request. Raises InvalidConfigError, and ObjectStoreUnsuitableError without the client library."""
    settings = parse_store_settings(url, options)
    if settings.provider == FOLDER_SCHEME:
        from broker_core.object_store.folder_store import FolderStore

        return FolderStore(settings.prefix)
    from broker_core.object_store.client_store import open_client_store

    return open_client_store(settings)
