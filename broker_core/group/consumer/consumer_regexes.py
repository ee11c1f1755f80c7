"""Regular expressions that members of a KIP-848 group subscribe by: when they are resolved, and what that changes.

A heartbeat with a new expression is answered at once; a following event of its own searches the topics. Its result is
stored, and increases the group epoch if it changed. All expressions of a group are resolved together: when one is new,
when topics were created, and from time to time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from broker_core.group.consumer.consumer_effects import GroupRequestError
from broker_core.group.consumer.consumer_group import ConsumerGroup
from broker_core.group.consumer.consumer_member import ConsumerMember
from broker_core.group.consumer.consumer_settings import REGEX_MIN_REFRESH_INTERVAL_MS
from broker_core.group.consumer.consumer_step import REGEX, ConsumerStep
from broker_core.group.consumer.topic_regex import matches, refusal_of_regex
from broker_core.group.consumer_group_records import ConsumerGroupRecord, ConsumerRecordType, ResolvedRegex


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexChange:
    """`forgotten`: an expression that no member uses any more, "" for none. `is_new`: no member used it before."""

    has_changed: bool = False
    is_new: bool = False
    needs_rebalance: bool = False
    forgotten: str = ""

    def tombstones(self, group_id: str) -> list[ConsumerGroupRecord]:
        kind = ConsumerRecordType.REGEX
        return [ConsumerGroupRecord(type=kind, group_id=group_id, item=self.forgotten)] if self.forgotten else []


def regex_change_of(group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> RegexChange:
    """Raises GroupRequestError for an expression that is new to the group and invalid.

    An expression that is not resolved yet causes no rebalance: its result will.
    """
    old, new = member.regex, updated.regex
    if member.metadata.topic_regex == updated.metadata.topic_regex:
        return RegexChange()
    is_new = bool(new) and not group.subscribers_of(new)
    if is_new:
        refusal = refusal_of_regex(new)
        if refusal is not None:
            raise GroupRequestError(ErrorCode.invalid_regular_expression, refusal)
    return RegexChange(
        has_changed=True,
        is_new=is_new,
        needs_rebalance=new in group.regexes and not is_new if new else bool(old),
        forgotten=old if old and group.subscribers_of(old) == 1 else "",
    )


def maybe_ask_for_regexes(
    step: ConsumerStep, updated: ConsumerMember, change: RegexChange, sees_topic: Callable[[str], bool]
) -> None:
    """Sets the timer at which they are resolved, if it is time."""
    group = step.group
    subscribed = group.subscribed_regexes(group.members_after(updated).values())
    if not subscribed or group.sees_topic is not None:
        return
    last_ms = next((resolved.time_ms for resolved in group.regexes.values()), None)
    if last_ms is not None and step.now_ms <= last_ms + REGEX_MIN_REFRESH_INTERVAL_MS:
        return
    is_old = last_ms is None or step.now_ms > last_ms + step.settings.regex_refresh_interval_ms
    if change.is_new or len(subscribed) != len(group.regexes) or not group.knows_regexes or is_old:
        group.sees_topic = sees_topic
        step.set_timer(REGEX, "", step.now_ms)


def resolve_regexes(step: ConsumerStep) -> None:
    """The timer's event."""
    group, topics = step.group, step.world.topics
    sees_topic, group.sees_topic = group.sees_topic, None
    subscribed = group.subscribed_regexes(group.members.values())
    if sees_topic is None or not subscribed:
        return
    group.knows_regexes = True
    found = {regex: {topic for topic in topics.names() if matches(regex, topic)} for regex in sorted(subscribed)}
    hidden = {topic for topic in frozenset().union(*found.values()) if not sees_topic(topic)}
    names = set().union(*(member.metadata.topic_names for member in group.members.values()))
    has_changed = False
    for regex, matched in found.items():
        visible = frozenset(matched - hidden)
        before = group.regexes.get(regex)
        has_changed |= visible != (frozenset() if before is None else before.topics)
        names |= visible
        resolved = ResolvedRegex(topics=visible, version=topics.version, time_ms=step.now_ms)
        step.store(ConsumerRecordType.REGEX, regex, resolved)
    metadata_hash = topics.hash_of(names)
    if has_changed or metadata_hash != group.metadata_hash:
        step.store_epoch(group.epoch + 1, metadata_hash)
        group.knows_topics = True
