"""conf/compiled_pyspark: processes of Spark take the installed PySpark, and only where the zip is the same one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

FOLDER = Path(__file__).parent.parent.parent / "conf" / "compiled_pyspark"
ZIP = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
TELL = "from importlib.util import find_spec; print(find_spec('pyspark').origin)"


def pyspark_of_a_process(*path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    found = subprocess.run([sys.executable, "-c", TELL], env=environment, capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def test_with_the_folder_a_python_process_uses_the_installed_pyspark_instead_of_the_zip():
    assert ZIP in pyspark_of_a_process(ZIP).parents
    assert pyspark_of_a_process(ZIP, FOLDER) == Path(pyspark.__file__)


def test_the_zip_of_another_spark_version_is_used_even_with_the_folder(tmp_path):
    """As of a Spark that was not installed by pip, whose PySpark may be another version or the only one."""
    other = Path(shutil.copy(ZIP, tmp_path / "pyspark.zip"))
    assert other in pyspark_of_a_process(other, FOLDER).parents
