"""Creates the registry that the options name, of either kind."""

from __future__ import annotations

from functools import lru_cache

from spark_streamlog.serde.schema_registry import CachedRegistry, RegistryTarget, SchemaRegistry


@lru_cache(maxsize=32)
def open_registry(target: RegistryTarget) -> SchemaRegistry:
    """One registry per target and process. Makes no request."""
    if target.path is not None:
        from spark_streamlog.serde.file_registry import FileRegistry

        return CachedRegistry(FileRegistry(target.path))
    from spark_streamlog.serde.http_registry import HttpRegistry

    return CachedRegistry(HttpRegistry(target))
