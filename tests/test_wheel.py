"""What `python -m build` makes: a wheel with the native kernel, which works where there is neither a compiler nor the
checkout. Long: it compiles, and installs the dependencies into a fresh environment."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXTENSIONS = ("broker_core/record/kernel.", "broker_core/server/native_syncs.")

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def run(*command, cwd, **environment):
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False, timeout=900,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Made by way of the source distribution, as `python -m build` does; so that is whole, too."""
    source = tmp_path_factory.mktemp("source")
    listed = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, listed):
        # What was compiled in the checkout stays there.
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--outdir", source / "dist", cwd=source)
    (found,) = (source / "dist").glob("*.whl")
    return found


def test_the_wheel_holds_the_native_modules_and_all_packages(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for extension in EXTENSIONS:
        assert any(name.startswith(extension) and name.endswith(".so") for name in names), extension
    assert "pyspark_streamlog.py" in names
    listed = run("git", "ls-files", "broker_core/*.py", "spark_streamlog/*.py", cwd=ROOT).split()
    assert not set(listed) - set(names)
    assert not [name for name in names if name.startswith("tests/")]


def test_it_works_in_a_fresh_environment_without_a_compiler(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    bin_folder = tmp_path / "venv" / "bin"
    run(bin_folder / "pip", "install", "--quiet", "--only-binary", ":all:", wheel, cwd=tmp_path, CC="/bin/false")
    streamlog = bin_folder / "streamlog"
    assert run(streamlog, "--version", cwd=tmp_path).endswith("native record kernel\n")
    (tmp_path / "lines").write_text("one\ntwo\n")
    run(streamlog, "produce", "t", "--path", "log", "--file", "lines", cwd=tmp_path)
    assert run(streamlog, "consume", "t", "--path", "log", cwd=tmp_path) == "one\ntwo\n"
    imported = run(bin_folder / "python", "-c", "import broker_core; print(broker_core.__file__)", cwd=tmp_path)
    assert imported.startswith(str(tmp_path / "venv"))
