"""What is written into a node's directories before its first start, decided from its settings and the options.

    settings    process.roles, node.id, log.dirs, metadata.log.dir, controller.quorum.voters, controller.listener.names,
                listeners, advertised.listeners
    voters      of `controller.quorum.voters` (static); or of the first snapshot (dynamic): this node alone, those that
                are given, or nobody, for a node that joins later

Rules are those of Kafka's StorageTool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_core.controller.release_features import levels_of_new_cluster
from broker_core.metadata.controller import random_id
from broker_core.metadata.metadata_records import UserScramCredentialRecord
from broker_core.metadata.metadata_version import KRAFT_VERSION_FEATURE
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.setting_parsers import int_parser, invalid_value, items_of
from broker_core.ports import Entropy
from broker_core.raft.bootstrap_voters import BootstrapVoter
from broker_core.raft.voter_set import DYNAMIC_KRAFT_VERSION

VOTERS: Final = "controller.quorum.voters"
_ROLES: Final = ("broker", "controller")
_LISTENER: Final = re.compile(r"(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[^\]]*\]|[^:\[\]]*):(?P<port>\d{1,5})")
_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_ANY_HOST: Final = frozenset({"", "0.0.0.0", "::"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeToFormat:
    """`controller` is the address that other nodes reach this controller at, None if it has none."""

    node_id: int
    roles: tuple[str, ...]
    metadata_dir: str
    other_dirs: tuple[str, ...]
    has_static_voters: bool
    controller_listener: str
    controller: BrokerAddress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstVoters:
    """What the options say of the voters; at most one is set. `given`: those of a dynamic quorum."""

    is_standalone: bool = False
    is_joining: bool = False
    given: tuple[BootstrapVoter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPlan:
    """`voters` is empty without a first snapshot. `levels` are those of the cluster's features."""

    node_id: int
    cluster_id: str
    directory_id: UUID
    levels: Mapping[str, int]
    metadata_dir: str
    other_dirs: tuple[str, ...]
    voters: tuple[BootstrapVoter, ...]
    listener: str
    users: tuple[UserScramCredentialRecord, ...] = ()


def parse_format_settings(given: Mapping[str, str]) -> NodeToFormat:
    """Raises InvalidConfigError."""
    roles = tuple(items_of(given.get("process.roles", "broker,controller")))
    if not roles or set(roles) - set(_ROLES):
        raise invalid_value("process.roles", given["process.roles"], f"roles are {' and '.join(_ROLES)}")
    if not given.get("node.id", "").strip():
        raise InvalidConfigError("node.id is missing", setting="node.id")
    node_id = int_parser(0)("node.id", given["node.id"])
    assert isinstance(node_id, int)
    dirs = tuple(items_of(given.get("log.dirs") or given.get("log.dir", "")))
    if not dirs:
        raise InvalidConfigError("log.dirs is missing", setting="log.dirs")
    metadata_dir = given.get("metadata.log.dir", "").strip() or dirs[0]
    voters = given.get(VOTERS, "").strip()
    ids = {item.partition("@")[0].strip() for item in items_of(voters)} if voters else set()
    if voters and "controller" in roles and str(node_id) not in ids:
        raise InvalidConfigError(f"node.id is {node_id}, which is not among {VOTERS}={voters}", setting="node.id")
    listener = next(iter(items_of(given.get("controller.listener.names", ""))), "CONTROLLER")
    return NodeToFormat(
        node_id=node_id,
        roles=roles,
        metadata_dir=metadata_dir,
        other_dirs=tuple(each for each in dirs if each != metadata_dir),
        has_static_voters=bool(voters),
        controller_listener=listener,
        controller=_address_of(listener, given),
    )


def plan_format(
    settings: NodeToFormat,
    *,
    cluster_id: str,
    first_voters: FirstVoters,
    release: str | None,
    levels: Mapping[str, int],
    users: Sequence[UserScramCredentialRecord] = (),
    entropy: Entropy,
) -> FormatPlan:
    """`users` of SCRAM that a new cluster begins with. Raises InvalidConfigError."""
    if _CLUSTER_ID.fullmatch(cluster_id) is None:
        raise InvalidConfigError(f"{cluster_id!r} is no cluster id: streamlog storage random-uuid prints one")
    _check_voters(settings, first_voters)
    _check_quorum_level(settings, first_voters, levels.get(KRAFT_VERSION_FEATURE))
    chosen = levels_of_new_cluster(release, levels)
    directory_id, voters = random_id(entropy), first_voters.given
    if first_voters.is_standalone:
        assert settings.controller is not None, "was checked"
        voters = (BootstrapVoter(node_id=settings.node_id, directory_id=directory_id, address=settings.controller),)
    for voter in voters:
        if voter.node_id == settings.node_id and "controller" in settings.roles:
            directory_id = voter.directory_id
    return FormatPlan(
        node_id=settings.node_id,
        cluster_id=cluster_id,
        directory_id=directory_id,
        levels=chosen,
        metadata_dir=settings.metadata_dir,
        other_dirs=settings.other_dirs,
        voters=voters,
        listener=settings.controller_listener,
        users=tuple(users),
    )


def _check_voters(settings: NodeToFormat, first: FirstVoters) -> None:
    if settings.has_static_voters and (first.is_standalone or first.given):
        raise InvalidConfigError(
            f"{VOTERS} makes the voters static, so --standalone and --initial-controllers cannot be used; for a "
            "dynamic quorum remove it and set controller.quorum.bootstrap.servers",
            setting=VOTERS,
        )
    is_controller = "controller" in settings.roles
    if first.is_standalone:
        if not is_controller:
            raise InvalidConfigError(
                f"--standalone is for a controller, and process.roles is {','.join(settings.roles)}",
                setting="process.roles",
            )
        if settings.controller is None:
            raise InvalidConfigError(
                f"--standalone needs the controller's address: listeners has no {settings.controller_listener}, which "
                "is the first of controller.listener.names",
                setting="listeners",
            )
    is_open = not (first.is_standalone or first.is_joining or first.given)
    if is_controller and not settings.has_static_voters and is_open:
        raise InvalidConfigError(
            f"{VOTERS} is not set: give one of --standalone, --initial-controllers and --no-initial-controllers",
            setting=VOTERS,
        )


def _check_quorum_level(settings: NodeToFormat, first: FirstVoters, level: int | None) -> None:
    """Of static voters `kraft.version` is 0, of dynamic ones 1."""
    is_dynamic = not settings.has_static_voters and (first.is_standalone or first.is_joining or bool(first.given))
    needed = DYNAMIC_KRAFT_VERSION if is_dynamic else 0
    if level in (0, DYNAMIC_KRAFT_VERSION) and level != needed:
        kind = "dynamic" if is_dynamic else "static"
        raise InvalidConfigError(f"{KRAFT_VERSION_FEATURE}={level}: the voters are {kind}, so it is {needed}")


def _address_of(listener: str, given: Mapping[str, str]) -> BrokerAddress | None:
    """As advertised, else as it is bound; any host is the local one, as in Kafka."""
    for setting in ("advertised.listeners", "listeners"):
        for item in items_of(given.get(setting, "")):
            found = _LISTENER.fullmatch(item)
            if found is None:
                raise invalid_value(setting, given[setting], f"{item} is not NAME://host:port")
            if found["name"].upper() == listener.upper():
                host = found["host"].strip("[]")
                return BrokerAddress(host="localhost" if host in _ANY_HOST else host, port=int(found["port"]))
    return None
