"""Reports in files: kept, read again, joined; and the picture of one."""

from dataclasses import replace

import pytest
from bench.card import Contender
from bench.plot import draw
from bench.report import Failure
from bench.report_file import join, load, save
from bench.test_report import MACHINE, a_bench, a_report, samples_of


def two_benches():
    return [replace(a_bench(), name=name) for name in ("first", "second")]


def samples_of_bench(name, *rates):
    found = samples_of(Contender.BROKER, *rates) + samples_of(Contender.KAFKA, 10)
    return [replace(sample, bench=name) for sample in found]


def test_a_saved_report_is_read_back(tmp_path):
    benches = [a_bench()]
    failure = Failure(bench="b", case="c", contender="kafka", reason="it has ended")
    report = a_report(benches, samples_of(Contender.BROKER, 15) + samples_of(Contender.KAFKA, 10), failures=[failure])
    save(report, tmp_path / "found.json")
    assert load(tmp_path / "found.json", benches) == report
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


def test_parts_of_a_run_make_one_report_and_the_last_result_of_a_bench_counts():
    first, second = benches = two_benches()
    before = a_report(benches, samples_of_bench("first", 15) + samples_of_bench("second", 1))
    after = a_report([second], samples_of_bench("second", 30), machine=replace(MACHINE, date="2026-01-02"))
    found = join([before, after], benches)
    ours = {cell.bench: cell.median for cell in found.summaries if cell.contender is Contender.BROKER}
    assert ours == {first.name: 15, second.name: 30}
    assert found.machine.date == "2026-01-01 to 2026-01-02"
    assert found.seconds == {"first": 60.0, "second": 60.0}


def test_a_failure_disappears_when_its_bench_succeeds_later():
    benches = two_benches()
    failure = Failure(bench="second", case="c", contender="kafka", reason="it has ended")
    before = a_report(benches, samples_of_bench("first", 15), failures=[failure])
    after = a_report(benches[1:], samples_of_bench("second", 30))
    assert join([before, after], benches).failures == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"machine": replace(MACHINE, core_count=4)}, "not of one machine"),
        ({"machine": replace(MACHINE, versions={"Kafka": "4.4"})}, "not of one machine"),
        ({"scale": {"spark_rows": 20, "rounds": 3}}, "not of the same amounts"),
    ],
)
def test_parts_of_different_machines_versions_or_amounts_are_not_joined(changes, reason):
    report = a_report([a_bench()], samples_of(Contender.BROKER, 15))
    with pytest.raises(ValueError, match=reason):
        join([report, replace(report, **changes)], [a_bench()])


def test_parts_can_differ_in_rounds_and_resource_usage():
    report = a_report([a_bench()], samples_of(Contender.BROKER, 15))
    machine = replace(MACHINE, versions={"Kafka": "4.3.1", "PySpark": "4.2.0"})
    found = join([report, replace(report, machine=machine, scale={"spark_rows": 10, "rounds": 5})], [a_bench()])
    assert found.machine.versions == {"Kafka": "4.3.1", "PySpark": "4.2.0"}


def test_a_report_can_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    growth = replace(a_bench(flat_within=1.2), name="growth-of-it")
    steps = [
        replace(sample, bench=growth.name)
        for case in ("1", "1,000")
        for sample in samples_of(Contender.BROKER, 5, case=case) + samples_of(Contender.KAFKA, 6, case=case)
    ]
    benches = [a_bench(), growth]
    draw(a_report(benches, samples_of_bench("b", 15) + steps), benches, tmp_path / "both.png")
    draw(a_report(benches[:1], samples_of_bench("b", 15)), benches, tmp_path / "ratios.png")
    draw(a_report(benches, steps), benches, tmp_path / "growth.png")
    assert min((tmp_path / name).stat().st_size for name in ("both.png", "ratios.png", "growth.png")) > 10_000
