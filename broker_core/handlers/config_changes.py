"""What AlterConfigs and IncrementalAlterConfigs have in common: each resource is judged and changed on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.handlers.call import Call
from broker_core.handlers.config_owners import Changes, ConfigOwner, owner_of
from broker_core.handlers.config_resources import ResourceKind, is_allowed_to_alter
from broker_core.handlers.gathered_answers import GatheredAnswers
from broker_core.metadata.controller import MetadataController
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import InvalidRequestError, StreamlogError
from broker_core.protocol.api_table import ApiKey

PlanChanges = Callable[[ConfigOwner, Mapping[str, str], Any], Changes]
"""(the owner, what it sets, the request's resource) -> the changes. Raises StreamlogError."""


def alter_each(call: Call, plan: PlanChanges) -> None:
    """Answers the whole request."""
    resources = call.message.resources
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    answers = GatheredAnswers(range(len(resources)), lambda responses: call.respond(responses=list(responses.values())))

    def answer(place: int, error_code: ErrorCode = ErrorCode.none, error_message: str | None = None) -> None:
        named_by = resources[place]
        answers.add(
            place,
            {
                "error_code": error_code,
                "error_message": error_message,
                "resource_type": named_by.resource_type,
                "resource_name": named_by.resource_name,
            },
        )

    for place, resource in enumerate(resources):
        if named[resource.resource_type, resource.resource_name] > 1:
            answer(place, ErrorCode.invalid_request, "Each resource must appear at most once.")
            continue
        if resource.resource_type == ResourceKind.BROKER_LOGGER and call.api_key == ApiKey.ALTER_CONFIGS:
            # Known to the incremental API only: refused before access is asked.
            answer(place, ErrorCode.invalid_request, f"Unknown resource type {resource.resource_type}")
            continue
        refusal = is_allowed_to_alter(call, resource.resource_type, resource.resource_name)
        if refusal is not None:
            answer(place, refusal)
            continue
        _alter(call, resource, plan, partial(answer, place))


def require_value(name: str, value: str | None) -> str:
    """Raises InvalidRequestError."""
    if value is None:
        raise InvalidRequestError(f"Null value not supported for : {name}")
    return value


def _alter(call: Call, resource: Any, plan: PlanChanges, answer: Any) -> None:
    def refused(error: StreamlogError) -> None:
        answer(error.error_code, error.message)

    try:
        owner = owner_of(call.node, resource.resource_type, resource.resource_name)

        def planned(controller: MetadataController) -> CoordinatorResult[MetadataRecord, tuple[Changes, bool]]:
            """Of what is set when the change is made: another one may have come before it. The reply: the changes, and
            whether they give records."""
            changes = plan(owner, owner.current(controller.image), resource)
            records = owner.plan(controller, changes).records
            return CoordinatorResult(records=records, reply=(changes, bool(records)))

        call.node.topics.check(planned)
    except StreamlogError as error:
        refused(error)
        return
    if call.message.validate_only:
        answer()
        return

    def changed(reply: tuple[Changes, bool]) -> None:
        changes, has_records = reply
        owner.on_changed(changes)
        if not has_records:
            owner.on_set_again()
        answer()

    call.node.topics.change(planned, changed, refused)
