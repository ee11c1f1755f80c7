"""Explains in one sentence how to install Java when PySpark would not find it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

MINIMUM_JAVA_VERSION = 17


def missing_java_advice() -> str | None:
    """Advice on a missing or too old Java, or None if it is fine. Searches where PySpark does."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    advice = (
        f"install a JDK or JRE {MINIMUM_JAVA_VERSION} or newer (Debian and Ubuntu: apt-get install "
        "openjdk-17-jre-headless; macOS: brew install openjdk@17; any system: https://adoptium.net) and set JAVA_HOME "
        "to it or put it on the PATH."
    )
    if not java or not os.access(java, os.X_OK):
        where = (
            f"there is no bin/java in JAVA_HOME={home!r}" if home else "no java is on the PATH and JAVA_HOME is empty"
        )
        return f"Spark needs Java, and {where}: {advice}"
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found and int(found.group(1)) < MINIMUM_JAVA_VERSION:
        return f"Spark needs Java {MINIMUM_JAVA_VERSION} or newer, and {java} is version {found.group(1)}: {advice}"
    if not found:
        return f"Spark needs Java, and {java} -version fails ({answer.stderr.strip()[:200]!r}): {advice}"
    return None


def require_java() -> None:
    """Ends the program with that sentence on stderr and exit code 1, without a traceback."""
    advice = missing_java_advice()
    if advice:
        sys.exit(advice)
