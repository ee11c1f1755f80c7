"""The package as one archive for spark-submit's --py-files, and a Python that does not have it otherwise."""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
import zipfile
from pathlib import Path

from exactly_once.spark_process import HERE
from support.spark.spark_session import ROOT

PACKAGES = ("broker_core", "spark_streamlog")
MODULE = "pyspark_streamlog"
OURS = ("spark_streamlog", "broker_core", MODULE, "__editable__")


def build_archive(path: Path) -> Path:
    """Compiled Python modules: otherwise each process compiles them again. An extension module cannot be imported from
    a zip, so the pure kernel is used.
    """
    with zipfile.PyZipFile(str(path), "w", optimize=0) as archive:
        for entry in (*PACKAGES, f"{MODULE}.py"):
            archive.writepy(str(ROOT / entry))
    return path


def python_without_us(folder: Path) -> Path:
    """A program that runs this Python with everything that is installed here, but not this package."""
    installed = folder / "installed"
    installed.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(OURS) and entry.suffix != ".pth":
            (installed / entry.name).symlink_to(entry)
    program = folder / "python"
    # Without the environment that this Python belongs to, whose paths lead to us.
    program.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{HERE / "injected"}:{installed}${{PYTHONPATH:+:$PYTHONPATH}}"\n'
        f'exec "{os.path.realpath(sys.executable)}" -s "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program
