"""python -m tests.bench: ours and the peer measured in one run on one machine; see tests/bench/README.md.

    python -m tests.bench --list
    python -m tests.bench --quick
    python -m tests.bench --against kafka --json run.json --plot run.png
    python -m tests.bench --against kafka --only java confluent --factor 0.2
    python -m tests.bench --report first.json second.json --table long --plot run.png

The table goes to stdout, progress to stderr. Exit status 1: something could not be measured or was not right; a missed
target is no error.
"""

from __future__ import annotations

import argparse
import compileall
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

TESTS = Path(__file__).parent.parent
# So that its modules have the same names here as in the tests and in the programs that they start.
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from bench.card import FULL, QUICK, Bench, Contender  # noqa: E402
from bench.machine import look_at_machine  # noqa: E402
from bench.markdown_table import to_markdown  # noqa: E402
from bench.object_storage import why_no_object_storage  # noqa: E402
from bench.plot import draw  # noqa: E402
from bench.registry import BENCHES, select  # noqa: E402
from bench.report import Report, summarise  # noqa: E402
from bench.report_file import join, load, save  # noqa: E402
from bench.runner import BenchRunner  # noqa: E402
from bench.spark_process import PYSPARK_VERSION, bring_connector, bring_pyspark  # noqa: E402
from bench.stage import Stage  # noqa: E402
from support.brokers.kafka_tools import why_unavailable  # noqa: E402


def arguments_of(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", choices=("kafka",), help="the peer; without it ours alone is measured")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="benches, or how their names begin")
    parser.add_argument("--quick", action="store_true", help="tiny amounts, one round: whether it works, not how fast")
    parser.add_argument("--factor", type=float, default=1.0, help="so many times the rows, records and bytes")
    parser.add_argument("--rounds", type=int, help="instead of those of the scale")
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything that was found, kept after each bench")
    parser.add_argument("--table", choices=("short", "long"), default="short", help="long: CPU, memory, checks too")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="a picture; needs matplotlib (extra: bench)")
    parser.add_argument(
        "--report", nargs="+", type=Path, metavar="FILE", help="measure nothing: table and picture of such files"
    )
    parser.add_argument("--profile", type=Path, metavar="DIR", help="py-spy profiles of our broker, one for each case")
    parser.add_argument("--folder", type=Path, help="where logs are put; default: a temporary folder")
    parser.add_argument("--list", action="store_true", help="the cards of all benches")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    options = arguments_of(words)
    if options.list:
        print("\n".join(card_of(bench) for bench in BENCHES))
        print(f"\na full run against Kafka: {in_minutes(select([]))} on two cores")
        return 0
    try:
        benches = select(options.only)
        if options.report:
            report = join([load(path, benches) for path in options.report], benches)
        else:
            report = measure(options, benches)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(to_markdown(report, benches, is_long=options.table == "long"))
    if options.plot:
        draw(report, benches, options.plot)
    return 1 if any(not one.reason.startswith("skipped") for one in report.failures) else 0


def measure(options: argparse.Namespace, benches: Sequence[Bench]) -> Report:
    scale = (QUICK if options.quick else FULL).times(options.factor)
    if options.rounds:
        scale = scale.with_rounds(options.rounds)
    contenders = {*Contender} if options.against else {*Contender} - {Contender.KAFKA}
    missing = what_is_missing(benches, with_peer=options.against is not None)
    needs_spark = any("spark" in bench.needs for bench in benches)
    # A quick run takes the PySpark that is installed: nothing is compared, and nothing need be brought.
    spark_path = bring_pyspark() if needs_spark and (options.against or not options.quick) else None
    compile_as_installed()
    folder = Path(tempfile.mkdtemp(prefix="streamlog-bench-", dir=options.folder))
    # So that brokers and folders do not outlive a run that somebody ends.
    signal.signal(signal.SIGTERM, end_run)
    pyspark = PYSPARK_VERSION if spark_path else installed("pyspark")
    machine = look_at_machine(folder, pyspark if needs_spark else None)
    print(machine.in_words(), file=sys.stderr)
    if options.against and scale == FULL:
        print(f"this takes {in_minutes(benches)} on two cores", file=sys.stderr)
    stage = Stage(folder, scale, spark_path=spark_path)
    runner = BenchRunner(stage, contenders, missing, options.profile)
    try:
        for _ in runner.run(benches):
            report = Report(
                machine=machine,
                is_quick=options.quick,
                factor=options.factor,
                scale=asdict(scale),
                samples=runner.samples,
                failures=runner.failures,
                seconds=runner.seconds,
                summaries=summarise(benches, runner.samples, are_judged=not options.quick),
            )
            if options.json:
                save(report, options.json)
    finally:
        stage.close()
        shutil.rmtree(folder, ignore_errors=True)
        if left := [bench.name for bench in benches if bench.name not in runner.seconds]:
            print(f"not done: --only {' '.join(left)}", file=sys.stderr)
    return report


def compile_as_installed() -> None:
    """What pip does with what it installs, whatever PYTHONDONTWRITEBYTECODE says: brokers and Python workers of Spark
    start all the time, and would compile a checkout each time."""
    for package in ("broker_core", "spark_streamlog", "tests/bench"):
        compileall.compile_dir(TESTS.parent / package, quiet=2)


def end_run(number: int, frame: object) -> None:
    """By SystemExit, so that everything is closed; once, because `timeout` sends its signal twice."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def what_is_missing(benches: Sequence[Bench], *, with_peer: bool) -> dict[str, str]:
    """By what benches need. With a peer everything must be there: raises SystemExit where it is not."""
    from spark_streamlog.java_check import missing_java_advice

    missing = {"spark": missing_java_advice(), "java-tools": why_unavailable(), "versitygw": why_no_object_storage()}
    found = {need: reason for need, reason in missing.items() if reason}
    if with_peer and found:
        raise SystemExit("\n".join(found.values()))
    if with_peer and any("spark" in bench.needs for bench in benches):
        bring_connector()
    return found


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


def in_minutes(benches: Sequence[Bench]) -> str:
    return f"about {sum(bench.full_seconds for bench in benches) / 60:.0f} minutes"


def card_of(bench: Bench) -> str:
    targets = [
        f"{figure.name} ({contender}) {target:g} of the peer's"
        for figure in bench.figures
        for contender, target in figure.targets.items()
    ]
    targets += [f"{figure.name} {figure.bound:g} {figure.unit}" for figure in bench.figures if figure.bound is not None]
    if bench.flat_within is not None:
        targets.append(f"a step costs at most {bench.flat_within:g} times what any step before it does")
    return (
        f"{bench.name}\n    what      {bench.what}\n    how       {bench.how}\n    rounds    {rounds_of(bench)}\n"
        f"    verified  {bench.verified}\n    target    {'; '.join(targets) or 'none'}"
    )


def rounds_of(bench: Bench) -> str:
    warm_ups = f"after {FULL.warm_up_rounds} to warm up" if bench.is_warmed_up else "without a warm-up"
    return f"{FULL.rounds}, {warm_ups}; about {bench.full_seconds} s in all"


if __name__ == "__main__":
    sys.exit(main())
