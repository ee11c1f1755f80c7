"""What the tasks and the commit of a write must know of a log, without its ranges: from an image, and an image again.

    driver   plan = staging_plan_of(image, ...)        pickled to the tasks, and back to the driver's commit
    commit   outline_of(plan, ranges, app)             `plan_append` gives the same answer for it as for the whole image

That answer depends on topics, the horizon and the application's last version, which the plan has, and on whether the
objects were committed before: they were begun after the plan was made, so only a later commit can have them. If there
is a later commit, the conditional write of the next number fails, and the whole image decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from broker_core.cluster import TopicDescription
from broker_core.object_log.commit import PutTopic
from broker_core.object_log.data_range import AppendedRange
from broker_core.object_log.log_image import LogImage
from broker_core.staged_writes import AppVersion, StagingPlan

MAX_PLANNED_TOPIC_COUNT: Final = 100
"""Of a plan that names no topics; with more of them tasks look up theirs."""
MAX_PLANNED_APP_COUNT: Final = 100


def staging_plan_of(image: LogImage, topics: Collection[str] | None, app_id: str | None) -> StagingPlan:
    described: list[TopicDescription | None]
    if topics is None:
        described = [*image.topics.values()] if len(image.topics) <= MAX_PLANNED_TOPIC_COUNT else []
    else:
        described = [image.topic(name) for name in topics]
    apps: tuple[AppVersion, ...] | None = None
    if app_id is not None:
        apps = (image.apps[app_id],) if app_id in image.apps else ()
    elif len(image.apps) <= MAX_PLANNED_APP_COUNT:
        apps = tuple(image.apps.values())
    return StagingPlan(
        log_id=image.log_id,
        commit_number=image.number,
        horizon_ms=image.horizon_ms,
        topics=tuple(topic for topic in described if topic is not None),
        app_id=app_id,
        apps=apps,
        last_writer=image.last_writer,
    )


def outline_of(plan: StagingPlan, ranges: Sequence[AppendedRange], app: AppVersion | None) -> LogImage | None:
    """None if the plan does not know the topics or the application."""
    counts = {topic.topic_id: topic.partition_count for topic in plan.topics}
    if any(one.partition >= counts.get(one.topic_id, 0) for one in ranges):
        return None
    if app is not None and not plan.knows_version_of(app.app_id):
        return None
    outline = LogImage(plan.log_id)
    outline.number, outline.horizon_ms = plan.commit_number, plan.horizon_ms
    outline.last_writer = plan.last_writer
    for topic in plan.topics:
        outline.restore_topic(
            PutTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_count=topic.partition_count,
                configs=dict(topic.configs),
            )
        )
    for each in plan.apps or ():
        outline.restore_app(each)
    return outline


def after_commit(plan: StagingPlan, app: AppVersion | None, writer: str) -> StagingPlan:
    """The plan after one more commit, which appended ranges. `writer`: the id of that commit."""
    apps = plan.apps
    if app is not None and apps is not None:
        apps = (*(each for each in apps if each.app_id != app.app_id), app)
    return replace(plan, commit_number=plan.commit_number + 1, apps=apps, last_writer=writer)
