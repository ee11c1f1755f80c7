"""Scenarios, collected by decorators: one for each version of an API, or a single one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker_core.protocol.api_table import versions_with_schemas
from broker_core.protocol.served_versions import SERVED_VERSIONS

SCENARIOS = {}
"""By slug, in import order."""


@dataclass(frozen=True)
class Scenario:
    slug: str
    act: Callable
    is_recorded: bool
    """Whether its answers are recorded: those of lowest, newest and named versions, without long waits."""


def versions_of(api):
    """Versions that are served and that kio can encode."""
    return [version for version in SERVED_VERSIONS[api] if version in versions_with_schemas(api)]


def for_versions(api, *, first=None, last=None, recorded=True, also_recorded=()):
    """`act(play, version)`, once for every version."""

    def register(act):
        versions = [v for v in versions_of(api) if (first is None or v >= first) and (last is None or v <= last)]
        for version in versions:
            kept = recorded and version in (versions[0], versions[-1], *also_recorded)
            _add(act, f"v{version}", lambda play, version=version: act(play, version), kept)
        return act

    return register


def once(*, recorded=True):
    """`act(play)`."""

    def register(act):
        _add(act, "", act, recorded)
        return act

    return register


def _add(act, suffix, run, kept):
    family = act.__module__.rpartition(".")[2].removesuffix("_scenarios")
    slug = "-".join(part for part in (family, act.__name__.replace("_", "-"), suffix) if part)
    assert slug not in SCENARIOS, slug
    SCENARIOS[slug] = Scenario(slug=slug, act=run, is_recorded=kept)
