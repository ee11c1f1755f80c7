"""Apache Kafka's own command-line tools, as the judge of the files that we write.

The jars come from Maven Central by `mvn`, once, into $STREAMLOG_PEERS (by default ~/.cache/streamlog-peers).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

KAFKA_VERSION = "4.3.1"
CACHE = Path(os.environ.get("STREAMLOG_PEERS", Path.home() / ".cache" / "streamlog-peers"))
JARS = CACHE / f"kafka-{KAFKA_VERSION}"
TOOLS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    "org.slf4j:slf4j-simple:1.7.36",
)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version><packaging>pom</packaging><dependencies>
{dependencies}
</dependencies></project>"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def why_unavailable() -> str | None:
    """The reason to skip, or None once the jars are there."""
    return why_without_jars("Kafka's own tools", JARS, TOOLS)


def why_without_jars(whose: str, folder: Path, dependencies: Sequence[str], *, transitive: bool = True) -> str | None:
    """None once there is Java, and the jars of dependencies `group:artifact:version` are in the folder."""
    if shutil.which("java") is None:
        return f"{whose} need Java, and there is no java on the PATH"
    if folder.is_dir() and any(folder.iterdir()):
        return None
    if shutil.which("mvn") is None:
        return f"{whose} come by Maven, and there is no mvn on the PATH"
    project = folder.with_name(f"{folder.name}-pom")
    project.mkdir(parents=True, exist_ok=True)
    lines = "".join(_DEPENDENCY.format(*dependency.split(":")) for dependency in dependencies)
    (project / "pom.xml").write_text(_POM.format(dependencies=lines))
    copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    copy += [] if transitive else ["-DexcludeTransitive=true"]
    result = subprocess.run(copy, cwd=project, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        return f"Maven could not bring {folder.name}: {result.stdout.strip()[-200:]}"
    return None


def metadata_shell(snapshot: Path, *command: str) -> str:
    """What kafka-metadata-shell says of a snapshot. It comes in a jar of its own, also by Maven."""
    folder = CACHE / f"kafka-shell-{KAFKA_VERSION}"
    reason = why_without_jars("kafka-metadata-shell", folder, (f"org.apache.kafka:kafka-shell:{KAFKA_VERSION}",))
    assert reason is None, reason
    shell = "org.apache.kafka.shell.MetadataShell"
    return kafka_tool(shell, "--snapshot", str(snapshot), *command, class_path=f"{JARS}/*:{folder}/*")


def kafka_tool(name: str, *arguments: str, class_path: str = f"{JARS}/*") -> str:
    """What a class of Kafka's own tools says; a tool that fails fails the caller."""
    options = ["-Xmx256M", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command = ["java", *options, "-cp", class_path, name, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout


def dump_log_segments(*files: Path, decoder: str | None = None) -> str:
    """Deep iteration over .log files and index checks; every complaint of the tool fails the caller."""
    arguments = ["--deep-iteration", "--files", ",".join(str(f) for f in files)]
    if decoder:
        arguments.append(decoder)
    heap = ["-Xmx256M", "-Xshare:auto", "-XX:TieredStopAtLevel=1"]
    command = ["java", *heap, "-cp", f"{JARS}/*", "org.apache.kafka.tools.DumpLogSegments", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    complaint = re.search(
        # "Non-consecutive offsets" is no complaint: the tool says it of every segment after the first, and of gaps.
        r"(?i)^.*(exception|corrupt|mismatch|isvalid: false|\bfound timestamp|out of order|not a valid"
        r"|could not|invalid|index sanity|trailing|failed).*$",
        result.stdout + result.stderr,
        re.MULTILINE,
    )
    assert complaint is None, complaint.group(0)
    return result.stdout
