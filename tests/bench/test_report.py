"""What samples amount to: medians, ratios to the peer, verdicts; and the table that shows them."""

from dataclasses import replace

import pytest
from bench.card import FULL, QUICK, Bench, BenchOutcome, Better, Contender, Figure
from bench.machine import BenchMachine
from bench.markdown_table import number, to_markdown
from bench.process_usage import TreeUsage
from bench.registry import BENCHES, select
from bench.report import FLATNESS, Report, Sample, summarise
from bench.row_values import ReadTally, check_tally, expected_tally, tally_of, value_of
from bench.runner import BenchRunner

MACHINE = BenchMachine(
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


def a_report(benches, samples, **given):
    return Report(
        **{
            "machine": MACHINE, "is_quick": False, "factor": 1.0, "scale": {"spark_rows": 10, "rounds": 3},
            "samples": samples, "failures": [], "seconds": {bench.name: 60.0 for bench in benches},
            "summaries": summarise(benches, samples), **given,
        }
    )  # fmt: skip


def samples_of(contender, *rates, case="c"):
    return [
        Sample(
            bench="b", case=case, contender=contender, round_number=number, values={"rate": rate},
            usage={"client": TreeUsage(cpu_s=1.5, peak_bytes=2 * 2**20)}, verified="all", load=0.0,
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
def test_a_target_includes_its_bound(better, ours, is_met):
    samples = samples_of(Contender.BROKER, ours) + samples_of(Contender.KAFKA, 10)
    assert cell(summarise([a_bench(better=better)], samples), Contender.BROKER).is_met is is_met


def test_without_a_peer_nothing_is_judged():
    found = cell(summarise([a_bench()], samples_of(Contender.EMBEDDED, 5)), Contender.EMBEDDED)
    assert (found.ratio, found.is_met) == (None, None)


def test_amounts_that_are_too_small_are_compared_but_not_judged():
    samples = samples_of(Contender.BROKER, 15) + samples_of(Contender.KAFKA, 10)
    found = cell(summarise([a_bench()], samples, are_judged=False), Contender.BROKER)
    assert (found.ratio, found.is_met) == (pytest.approx(1.5), None)


def test_growth_is_judged_by_the_cost_of_a_step_relative_to_the_previous_one():
    steps = [
        *samples_of(Contender.EMBEDDED, 100, case="1"),
        *samples_of(Contender.EMBEDDED, 130, case="10"),
        *samples_of(Contender.EMBEDDED, 90, case="100"),
    ]
    found = summarise([a_bench(better=Better.LOWER, flat_within=1.2)], steps)
    growth = cell(found, Contender.EMBEDDED, FLATNESS)
    assert growth.median == pytest.approx(1.3)
    assert growth.is_met is False


def test_an_expensive_first_step_hides_no_later_growth():
    costs = {"1": 150, "10": 100, "100": 140}
    steps = [sample for case, cost in costs.items() for sample in samples_of(Contender.BROKER, cost, case=case)]
    found = summarise([a_bench(better=Better.LOWER, flat_within=1.2)], steps)
    growth = cell(found, Contender.BROKER, FLATNESS)
    assert growth.median == pytest.approx(1.4)
    assert growth.is_met is False


def test_the_growth_of_the_peer_is_shown_and_not_judged():
    steps = [*samples_of(Contender.KAFKA, 100, case="1"), *samples_of(Contender.KAFKA, 300, case="10")]
    growth = cell(summarise([a_bench(flat_within=1.2)], steps), Contender.KAFKA, FLATNESS)
    assert (growth.median, growth.target, growth.is_met) == (pytest.approx(3), None, None)


def test_a_failed_run_is_reported_and_ends_only_its_own_contender():
    def run(stage, contender, case):
        if contender is Contender.BROKER:
            raise AssertionError("three records are missing")
        return BenchOutcome(values={"rate": 1.0}, verified="all")

    runner = BenchRunner(StageOfOneCall(QUICK.with_rounds(2)), set(Contender), {})
    assert len(list(runner.run([a_bench(run)]))) == 1
    assert [(one.contender, one.reason) for one in runner.failures] == [
        (Contender.BROKER, "AssertionError: three records are missing")
    ]
    assert len(runner.samples) == 2 * (len(Contender) - 1)


@pytest.mark.parametrize(("is_warmed_up", "runs"), [(True, 1 + 3), (False, 3)])
def test_a_warm_up_is_not_a_sample_and_some_benches_have_none(is_warmed_up, runs):
    seen = []

    def run(stage, contender, case):
        seen.append(case)
        return BenchOutcome(values={"rate": 1.0}, verified="all")

    bench = replace(a_bench(run, is_warmed_up=is_warmed_up), contenders=(Contender.BROKER,))
    runner = BenchRunner(StageOfOneCall(replace(QUICK, rounds=3, warm_up_rounds=1)), {Contender.BROKER}, {})
    list(runner.run([bench]))
    assert (len(seen), len(runner.samples)) == (runs, 3)
    assert list(runner.seconds) == ["b"]


def test_a_bench_with_missing_requirements_is_skipped_with_the_reason():
    runner = BenchRunner(StageOfOneCall(), set(Contender), {"spark": "there is no Java"})
    list(runner.run([a_bench(needs=frozenset({"spark"}))]))
    assert runner.failures[0].reason == "skipped: there is no Java"


def test_the_table_marks_missed_targets():
    bench = a_bench()
    samples = samples_of(Contender.BROKER, 15) + samples_of(Contender.KAFKA, 10)
    shown = to_markdown(a_report([bench], samples), [bench], is_long=False)
    assert "| b, c: rate | broker | 15 1/s | 10 1/s | 1.50 | ≥ 2: **missed** |" in shown


def test_the_short_table_has_the_judged_benches_and_the_long_one_all():
    bench = a_bench()
    samples = samples_of(Contender.BROKER, 15) + samples_of(Contender.BROKER_OS, 16) + samples_of(Contender.KAFKA, 10)
    short, long = (to_markdown(a_report([bench], samples), [bench], is_long=is_long) for is_long in (False, True))
    assert [line.split(" | ")[1] for line in short.splitlines() if line.startswith("| b, c")] == ["broker"]
    assert "| b, c: rate | broker flush.policy=os | 16 1/s | 10 1/s | 1.60 |  |" in long
    assert "| b, c | broker | client | 1.5 s | 2 MiB |" in long
    assert "- b, c, broker: all" in long


def test_the_table_of_growth_has_a_column_per_step():
    bench = replace(a_bench(better=Better.LOWER, flat_within=1.2), name="growth-of-it")
    samples = [
        replace(sample, bench=bench.name)
        for case, costs in {"1": (100, 98, 103), "10": (130,)}.items()
        for sample in samples_of(Contender.BROKER, *costs, case=case)
    ]
    shown = to_markdown(a_report([bench], samples), [bench], is_long=False)
    assert "| growth-of-it | contender | 1 | 10 | most by an earlier step | target |" in shown
    assert "| rate, 1/s | broker | 100 (98-103) | 130 | 1.30 | ≤ 1.2: **missed** |" in shown


def test_reduced_amounts_are_shown_above_the_table():
    report = a_report([a_bench()], samples_of(Contender.BROKER, 15))
    assert "amounts" not in to_markdown(report, [a_bench()], is_long=False)
    assert "Not the full amounts: 0.3 of them." in to_markdown(replace(report, factor=0.3), [a_bench()], is_long=False)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.1234, "0.123"),
        (12.34, "12.3"),
        (1234, "1,234"),
        (45_678, "45.7 k"),
        (456_789, "457 k"),
        (2_345_678, "2.35 M"),
    ],
)
def test_numbers_are_shown_with_significant_digits(value, shown):
    assert number(value) == shown


def test_a_tally_distinguishes_lost_and_duplicate_records():
    values = [value_of(number, 100) for number in range(1000)]
    check_tally(tally_of(values), expected_tally(1000, 100), "all")
    with pytest.raises(AssertionError, match="all but one"):
        check_tally(tally_of([*values[:-1], values[0]]), expected_tally(1000, 100), "all but one, and one twice")
    assert tally_of(values[:2]) == ReadTally(count=2, value_bytes=200, numbers=1)


def test_benches_are_selected_by_name_prefix():
    assert {bench.name for bench in select(["java-produce"])} == {"java-produce-acks-1", "java-produce-acks-all"}
    by_name_only = [bench.name for bench in BENCHES if bench not in select([])]
    assert by_name_only == [bench.name for bench in select(["objects"])]
    with pytest.raises(ValueError, match="no bench is named nothing"):
        select(["spark", "nothing"])


KAFKAS_TERMS = {Contender.BROKER: 1.0, Contender.BROKER_OS: 1.0}
PROMISED = {
    ("broker-start", "start"): {Contender.BROKER: 0.3},
    ("broker-memory-idle", "memory"): {Contender.BROKER: 0.25},
    ("broker-memory-after", "memory"): {Contender.BROKER: 0.2},
    ("broker-recovery", "recovery"): {Contender.BROKER: 1.5},
    ("java-produce-acks-1", "records/s"): KAFKAS_TERMS,
    ("java-produce-acks-all", "records/s"): {Contender.BROKER: 0.8},
    ("java-consume", "records/s"): {Contender.BROKER: 1.0},
    ("java-consume", "fetching records/s"): {Contender.BROKER: 1.0},
    ("java-round-trip", "p50"): KAFKAS_TERMS,
    ("java-round-trip", "p99"): KAFKAS_TERMS,
    ("confluent-produce", "records/s"): {Contender.BROKER: 1.0},
    ("confluent-consume", "records/s"): {Contender.BROKER: 1.0},
    ("spark-read", "rows/s"): {Contender.EMBEDDED: 2.5, Contender.BROKER: 2.0},
    ("spark-stream", "rows/s"): {Contender.EMBEDDED: 2.5, Contender.BROKER: 2.0},
    ("spark-stream-compiled", "rows/s"): {Contender.EMBEDDED: 2.5, Contender.BROKER: 2.0},
    ("spark-write", "rows/s"): {Contender.EMBEDDED: 2.5, Contender.BROKER: 1.5},
    ("spark-copy", "rows/s"): {Contender.EMBEDDED: 2.0, Contender.BROKER: 2.0},
    ("spark-micro-batch", "p50"): {Contender.EMBEDDED: 1.25, Contender.BROKER: 1.25},
    ("spark-micro-batch", "p95"): {Contender.EMBEDDED: 1.25, Contender.BROKER: 1.25},
    ("objects-read", "rows/s"): {Contender.OBJECTS: 2.0},
    ("objects-stream", "rows/s"): {Contender.OBJECTS: 2.0},
    ("objects-write", "rows/s"): {Contender.OBJECTS: 1.5},
    ("objects-copy", "rows/s"): {Contender.OBJECTS: 1.5},
    ("objects-micro-batch", "p50"): {Contender.OBJECTS: 1.5},
}


def test_the_targets_are_the_promised_ones():
    figures = [(bench.name, figure) for bench in BENCHES for figure in bench.figures]
    assert {(name, figure.name): dict(figure.targets) for name, figure in figures if figure.targets} == PROMISED
    assert {(name, figure.name): figure.bound for name, figure in figures if figure.bound is not None} == {
        ("kernel", "decode"): 20,
        ("kernel", "encode"): 10,
    }
    assert {bench.name: bench.flat_within for bench in BENCHES if bench.flat_within is not None} == {
        "growth-records": 1.2,
        "growth-partitions": 1.2,
        "growth-partition-shares": 1.2,
    }
    assert FULL.growth_records == (1_000_000, 10_000_000, 100_000_000)
    assert (FULL.growth_partitions[0], FULL.growth_partitions[-1]) == (1, 1_000)
    assert (FULL.growth_value_bytes[0], FULL.growth_value_bytes[-1]) == (10, 100_000)
    assert (FULL.growth_connections[0], FULL.growth_connections[-1]) == (1, 64)


def test_a_full_run_is_planned_for_one_hour():
    assert sum(bench.full_seconds for bench in select([])) <= 3600
