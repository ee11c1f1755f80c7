"""What two brokers may answer differently, and why: the whole list, as data.

A path is fields joined by dots, from the answer's top; `*` stands for any number of them. An excuse with `Rule.TEXT`
still demands that both have one or none.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from fnmatch import fnmatchcase

from differential.plain_values import CUT_OFF


class Rule(enum.Enum):
    """Reduces a value before it is compared."""

    ANY = "whatever it is"
    TEXT = "there is one, or there is none"
    SORTED = "the same elements, in any order"
    WITHOUT = "but for what has these names"
    WHOLE = "batches that are whole"


@dataclass(frozen=True, kw_only=True)
class Excuse:
    api: str
    path: str
    rule: Rule
    reason: str
    names: tuple = ()


@dataclass(frozen=True, kw_only=True)
class StepExcuse:
    """Answers that are not compared at all: those to requests of this API whose label matches the pattern."""

    api: str
    label: str
    reason: str


def _excuse(api, path, rule, reason, *names):
    return Excuse(api=api, path=path, rule=rule, reason=reason, names=names)


_FAILED = "unknown_server_error"
_HASHED = "Kafka answers in the order of a hash map"
_SETTINGS = "it is ours alone"
_OUR_SETTINGS = ("flush.policy",)
EXCUSES = (
    _excuse("[!P]*", "*error_message", Rule.TEXT, "for people: the wording is each broker's own"),
    _excuse(
        "Fetch",
        "responses.partitions.records",
        Rule.WHOLE,
        "the limit cuts Kafka's last batch off: no client can use it",
    ),
    _excuse("*", "*throttle_time", Rule.ANY, "no quotas are set, and a client only waits for as long as it says"),
    _excuse("*", "*host", Rule.ANY, "each listens where it listens"),
    _excuse("*", "*port", Rule.ANY, "each listens where it listens"),
    _excuse("*", "cluster_id", Rule.ANY, "made up by each cluster"),
    _excuse("ApiVersions", "*features*", Rule.ANY, "features of a cluster's formats, which grow with what is built"),
    _excuse("DescribeLogDirs", "results.log_dir", Rule.ANY, "each has its own directory"),
    _excuse("DescribeLogDirs", "results.*_bytes", Rule.ANY, "of the disk, at that moment"),
    _excuse("DescribeUserScramCredentials", "results*", Rule.SORTED, _HASHED),
    _excuse("Produce", "responses*", Rule.SORTED, _HASHED),
    _excuse("ListOffsets", "topics*", Rule.SORTED, _HASHED),
    _excuse("Metadata", "topics*", Rule.SORTED, _HASHED),
    _excuse("DeleteRecords", "topics*", Rule.SORTED, _HASHED),
    _excuse("DescribeProducers", "topics.partitions.active_producers", Rule.SORTED, _HASHED),
    _excuse("AddPartitionsToTxn", "results_by*", Rule.SORTED, _HASHED),
    _excuse("OffsetFetch", "*topics", Rule.SORTED, _HASHED),
    _excuse("OffsetCommit", "topics*", Rule.SORTED, _HASHED),
    _excuse("DescribeLogDirs", "results.topics*", Rule.SORTED, _HASHED),
    _excuse("CreateTopics", "topics*", Rule.SORTED, _HASHED),
    _excuse("AlterUserScramCredentials", "results", Rule.SORTED, _HASHED),
    _excuse("TxnOffsetCommit", "topics*", Rule.SORTED, _HASHED),
    _excuse("DescribeTransactions", "transaction_states.topics*", Rule.SORTED, _HASHED),
    _excuse("ConsumerGroupHeartbeat", "assignment.topic_partitions*", Rule.SORTED, _HASHED),
    _excuse("CreatePartitions", "results.error_message", Rule.ANY, "ours says more"),
    _excuse("DescribeProducers", "*error_message", Rule.ANY, "ours says more"),
    _excuse("ListConfigResources", "config_resources", Rule.SORTED, _HASHED),
    _excuse("CreatePartitions", "results", Rule.SORTED, _HASHED),
    _excuse("FindCoordinator", "*error_message", Rule.ANY, "ours says more"),
    _excuse("DescribeConfigs", "*documentation", Rule.ANY, "for people"),
    _excuse("DescribeConfigs", "*error_message", Rule.ANY, "ours says more"),
    _excuse("CreateTopics", "topics.configs", Rule.WITHOUT, _SETTINGS, *_OUR_SETTINGS),
    _excuse("DescribeConfigs", "results.configs", Rule.WITHOUT, _SETTINGS, *_OUR_SETTINGS),
    _excuse("DescribeConfigs", "results.configs", Rule.SORTED, _HASHED),
    _excuse("DeleteGroups", "results", Rule.SORTED, "Kafka answers coordinator by coordinator, of which ours is one"),
    _excuse("JoinGroup", "members", Rule.SORTED, _HASHED),
    _excuse("*DescribeGroups", "groups.members", Rule.SORTED, _HASHED),
    _excuse("ConsumerGroupDescribe", "groups.members", Rule.SORTED, _HASHED),
    _excuse("DeleteTopics", "responses", Rule.SORTED, _HASHED),
)


_UNREADABLE = "Kafka cannot read such a number and closes the connection; ours answers that it is none"
STEP_EXCUSES = (
    *(
        StepExcuse(api="*Acls", label=f"*{field}': 0*", reason=_UNREADABLE)
        for field in ("type", "operation", "type_filter")
    ),
    StepExcuse(api="DescribeConfigs", label="*client metrics*", reason="client metrics are not served"),
    StepExcuse(api="DescribeConfigs", label="*a logger*", reason="there are no Java loggers"),
)


_GROUPS = "Kafka lets a group commit any offset, negative ones too"
OPEN = (
    StepExcuse(api="OffsetCommit", label="*negative offset", reason=_GROUPS),
    StepExcuse(api="OffsetCommit", label="*offset -1", reason=_GROUPS),
    StepExcuse(api="TxnOffsetCommit", label="*negative", reason=_GROUPS),
    StepExcuse(api="TxnOffsetCommit", label="*another group", reason="a group that was not added to the transaction"),
    StepExcuse(api="OffsetFetch", label="* v7 committed", reason=_GROUPS),
    StepExcuse(api="OffsetFetch", label="* v7 aborted", reason=_GROUPS),
    StepExcuse(api="OffsetFetch", label="*no partitions", reason="Kafka answers a topic without partitions"),
    StepExcuse(api="WriteTxnMarkers", label="*no partitions", reason="Kafka answers nothing for such a marker"),
    StepExcuse(
        api="DescribeTransactions", label="*[0-9]. * open", reason="partitions of __consumer_offsets: ours has one"
    ),
    StepExcuse(
        api="ConsumerGroupHeartbeat", label="*a new one in a classic group", reason="who gets which is a hash's"
    ),
)
"""Known differences without a reason: they must be repaired."""


def is_excused(api, label):
    return any(fnmatchcase(api, excuse.api) and fnmatchcase(label, excuse.label) for excuse in (*STEP_EXCUSES, *OPEN))


def forgiven(expected, found):
    """`expected`, where each structure in which Kafka failed and ours returned another error is replaced by `found`.

    UNKNOWN_SERVER_ERROR is an unexpected exception in Kafka: ours names the mistake. And where Kafka has an error
    without a message, ours may have one.
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        if expected.get("error_code") == _FAILED and found.get("error_code", "none") != "none":
            return found
        if expected.get("error_code", "none") != "none" and expected.get("error_message", "") is None:
            expected = expected | {"error_message": found.get("error_message")}
        return {name: forgiven(value, found.get(name)) for name, value in expected.items()}
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [forgiven(*pair) for pair in zip(expected, found, strict=True)]
    return expected


def without_excused(api, answer, excuses=EXCUSES):
    """The answer with every excused value reduced by its rule."""
    return _reduced(answer, "", [excuse for excuse in excuses if fnmatchcase(api, excuse.api)])


def _reduced(value, path, excuses):
    match value:
        case dict():
            whole = {name: _reduced(one, f"{path}.{name}" if path else name, excuses) for name, one in value.items()}
        case list():
            whole = [_reduced(one, path, excuses) for one in value]
        case _:
            whole = value
    for excuse in excuses:
        if fnmatchcase(path, excuse.path) and not (isinstance(value, dict) and excuse.rule is Rule.SORTED):
            whole = _without(whole, excuse.names) if excuse.rule is Rule.WITHOUT else _RULES[excuse.rule](whole)
    return whole


def _without(value, names):
    return [one for one in value if one["name"] not in names] if isinstance(value, list) else value


def _sorted(value):
    return sorted(value, key=lambda one: json.dumps(one, sort_keys=True)) if isinstance(value, list) else value


_RULES = {
    Rule.ANY: lambda value: "<any>",
    Rule.TEXT: lambda value: "<text>" if value else value,
    Rule.SORTED: _sorted,
    Rule.WHOLE: lambda value: [one for one in value if one != CUT_OFF] if isinstance(value, list) else value,
}
