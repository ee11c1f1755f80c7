from broker_core.coordinator.contract import CoordinatorResult
from broker_core.group.group_effects import Answer, GroupEffects, TimerChange, answered, joined
from broker_core.group.group_records import GroupMetadataRecord

GONE = GroupMetadataRecord(group_id="g")


def test_several_effects_are_merged_in_order():
    timer = TimerChange(key="k", at_ms=5)
    first = answered(1, "a", (GONE,))
    second = CoordinatorResult(reply=GroupEffects(answers=(Answer(ticket=2, reply="b"),), timers=(timer,)))
    both = joined(first, second)
    assert both.records == (GONE,)
    assert [(answer.ticket, answer.reply) for answer in both.reply.answers] == [(1, "a"), (2, "b")]
    assert both.reply.timers == (timer,)
    assert joined() == CoordinatorResult(reply=GroupEffects())
