"""What samples amount to: medians, ratios to the peer, verdicts; and the table that shows them."""

import pytest
from bench.card import QUICK, Bench, Better, Contender, Figure, Outcome
from bench.machine import Machine
from bench.markdown_table import number, to_markdown
from bench.process_usage import TreeUsage
from bench.registry import BENCHES, select
from bench.report import Report, Sample, summarise
from bench.row_values import Tally, check_tally, expected_tally, tally_of, value_of
from bench.runner import Runner

MACHINE = Machine(
    date="2026-01-01", processor="a processor", core_count=2, memory_gib=24, kernel="Linux", python="3.11", java="17",
    versions={"Kafka": "4.3.1"}, record_kernel="native", sync_ms=0.5, load_before=0.1,
)  # fmt: skip


class StageOfOneCall:
    """What a runner needs of a stage."""

    def __init__(self, scale=QUICK):
        self.scale = scale
        self.last_usage = {"client": TreeUsage(cpu_s=1.5, peak_bytes=2 * 2**20)}


def a_bench(run=None, better=Better.HIGHER, **given):
    targets = {Contender.EMBEDDED: 2.0, Contender.BROKER: 2.0}
    return Bench(
        name="b", what="w", how="h", verified="v", contenders=tuple(Contender), cases=lambda scale: ("c",), run=run,
        figures=(Figure(name="rate", unit="1/s", better=better, targets=targets),), **given,
    )  # fmt: skip


def samples_of(contender, *rates, case="c"):
    return [
        Sample(
            bench="b", case=case, contender=contender, round_number=number, values={"rate": rate}, usage={},
            verified="all", load=0.0,
        )
        for number, rate in enumerate(rates)
    ]  # fmt: skip


def cell(found, contender, case="c"):
    return next(one for one in found if (one.contender, one.case) == (contender, case))


def test_a_cell_is_the_median_with_its_spread_and_the_ratio_to_the_peers_median():
    samples = samples_of(Contender.EMBEDDED, 30, 10, 50) + samples_of(Contender.KAFKA, 10, 20, 12)
    found = cell(summarise([a_bench()], samples), Contender.EMBEDDED)
    assert (found.median, found.low, found.high, found.runs) == (30, 10, 50, 3)
    assert found.ratio == pytest.approx(2.5)
    assert found.is_met


@pytest.mark.parametrize(
    ("better", "ours", "is_met"),
    [(Better.HIGHER, 20, True), (Better.HIGHER, 19, False), (Better.LOWER, 20, True), (Better.LOWER, 21, False)],
)
def test_a_target_is_met_up_to_and_with_its_bound(better, ours, is_met):
    samples = samples_of(Contender.BROKER, ours) + samples_of(Contender.KAFKA, 10)
    assert cell(summarise([a_bench(better=better)], samples), Contender.BROKER).is_met is is_met


def test_nothing_is_judged_without_a_peer():
    found = cell(summarise([a_bench()], samples_of(Contender.EMBEDDED, 5)), Contender.EMBEDDED)
    assert (found.ratio, found.is_met) == (None, None)


def test_amounts_that_are_too_small_are_compared_but_not_judged():
    samples = samples_of(Contender.BROKER, 15) + samples_of(Contender.KAFKA, 10)
    found = cell(summarise([a_bench()], samples, are_judged=False), Contender.BROKER)
    assert (found.ratio, found.is_met) == (pytest.approx(1.5), None)


def test_growth_is_judged_by_the_dearest_step():
    steps = [
        *samples_of(Contender.EMBEDDED, 100, case="1"),
        *samples_of(Contender.EMBEDDED, 130, case="10"),
        *samples_of(Contender.EMBEDDED, 90, case="100"),
    ]
    found = summarise([a_bench(better=Better.LOWER, flat_within=1.2)], steps)
    growth = cell(found, Contender.EMBEDDED, "dearest step by the first")
    assert growth.median == pytest.approx(1.3)
    assert growth.is_met is False


def test_a_run_that_fails_is_told_and_ends_only_its_own_contender():
    def run(stage, contender, case):
        if contender is Contender.BROKER:
            raise AssertionError("three records are missing")
        return Outcome(values={"rate": 1.0}, verified="all")

    runner = Runner(StageOfOneCall(QUICK.with_rounds(2)), set(Contender), {})
    assert len(list(runner.run([a_bench(run)]))) == 1
    assert [(one.contender, one.reason) for one in runner.failures] == [
        (Contender.BROKER, "AssertionError: three records are missing")
    ]
    assert len(runner.samples) == 2 * (len(Contender) - 1)


def test_a_bench_whose_needs_are_missing_is_skipped_with_the_reason():
    runner = Runner(StageOfOneCall(), set(Contender), {"spark": "there is no Java"})
    list(runner.run([a_bench(needs=frozenset({"spark"}))]))
    assert runner.failures[0].reason == "skipped: there is no Java"


def test_the_table_marks_what_was_missed():
    bench = a_bench()
    samples = samples_of(Contender.BROKER, 15) + samples_of(Contender.KAFKA, 10)
    report = Report(
        machine=MACHINE, scale={}, samples=samples, failures=[], summaries=summarise([bench], samples)
    )  # fmt: skip
    shown = to_markdown(report, [bench])
    assert "| b, c: rate | broker | 15 1/s | 10 1/s | 1.50 | ≥ 2: **missed** |" in shown
    assert "- b: v" in shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.1234, "0.123"), (12.34, "12.3"), (1234, "1,234"), (45_678, "46 k"), (2_345_678, "2.35 M")]
)
def test_numbers_are_shown_with_the_digits_that_say_something(value, shown):
    assert number(value) == shown


def test_a_tally_tells_a_lost_record_from_one_that_came_twice():
    values = [value_of(number, 100) for number in range(1000)]
    check_tally(tally_of(values), expected_tally(1000, 100), "all")
    with pytest.raises(AssertionError, match="all but one"):
        check_tally(tally_of([*values[:-1], values[0]]), expected_tally(1000, 100), "all but one, and one twice")
    assert tally_of(values[:2]) == Tally(count=2, value_bytes=200, numbers=1)


def test_benches_are_chosen_by_how_their_names_begin():
    assert {bench.name for bench in select(["java-produce"])} == {"java-produce-acks-1", "java-produce-acks-all"}
    assert select([]) == BENCHES
    with pytest.raises(ValueError, match="no bench is named nothing"):
        select(["spark", "nothing"])
