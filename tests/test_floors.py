"""Imports go down only: the contracts stand in pyproject.toml under [tool.importlinter]."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def lint_imports(*arguments, cwd=ROOT):
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    return subprocess.run(
        [*command, "--no-cache", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def test_every_import_goes_down_the_floors():
    result = lint_imports("--config", "pyproject.toml")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


def test_an_import_that_goes_up_is_caught(tmp_path):
    package = tmp_path / "broker_core"
    (package / "model").mkdir(parents=True)
    (package / "record").mkdir()
    for folder in (package, package / "model", package / "record"):
        (folder / "__init__.py").write_text("")
    (package / "model" / "limits.py").write_text("import broker_core.record\n")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_packages = ["broker_core"]\n[[tool.importlinter.contracts]]\nname = "down"\n'
        'type = "layers"\ncontainers = ["broker_core"]\nlayers = ["record", "model"]\n'
    )
    result = lint_imports("--config", "pyproject.toml", cwd=tmp_path)
    assert result.returncode != 0
    assert "broker_core.model" in result.stdout


def test_a_circle_inside_a_room_is_caught_though_it_is_only_for_types(tmp_path):
    room = tmp_path / "broker_core" / "server"
    room.mkdir(parents=True)
    for folder in (room.parent, room):
        (folder / "__init__.py").write_text("")
    (room / "one.py").write_text("import broker_core.server.two\n")
    (room / "two.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from broker_core.server import one\n"
    )
    contracts = (ROOT / "pyproject.toml").read_text()
    (contract,) = [each for each in contracts.split("[[") if 'type = "acyclic_siblings"' in each]
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_packages = ["broker_core"]\n[[' + contract.replace(', "spark_streamlog.*"', "")
    )
    result = lint_imports("--config", "pyproject.toml", cwd=tmp_path)
    assert result.returncode != 0
    assert "No cycles are allowed in broker_core.server" in result.stdout
