"""Two processes share the test run as support/runs/shared_first_scheduling.py says."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.runs.shared_first_scheduling import rank_of

TESTS = Path(__file__).parent
CONFTEST = """
from support.runs.shared_first_scheduling import SharedFirstScheduling

def pytest_xdist_make_scheduler(config, log):
    return SharedFirstScheduling(config, log)
"""


def test_one_process_begins_with_spark_and_the_other_one_with_the_unit_tests(tmp_path):
    files = ("tests/spark/test_a.py", "tests/spark/test_b.py", "tests/unit/test_c.py", "tests/unit/log/test_d.py")
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(
            "import os\nfrom pathlib import Path\n\ndef test_it():\n"
            f"    Path({str(tmp_path)!r}, Path(__file__).stem).write_text(os.environ['PYTEST_XDIST_WORKER'])\n"
        )
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\naddopts = --import-mode=importlib\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    workers = [(tmp_path / Path(file).stem).read_text() for file in files]
    assert workers[0] == workers[1] != workers[2] == workers[3]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("tests/spark/test_serde.py", "tests/remote/test_spark.py"),
        ("tests/clients/test_aiokafka_admin.py", "tests/test_tidy.py"),
        ("tests/golden/test_odd_records.py", "tests/unit/broker_core/test_group_lag.py"),
    ],
)
def test_a_file_belongs_to_the_longest_folder_that_it_is_in(earlier, later):
    assert rank_of(earlier) < rank_of(later)
