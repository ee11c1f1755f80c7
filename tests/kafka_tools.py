"""Apache Kafka's own command-line tools, as the judge of the files that we write.

The jars come from Maven Central by `mvn`, once, into $STREAMLOG_PEERS (by default ~/.cache/streamlog-peers).
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

KAFKA_VERSION = "4.3.1"
CACHE = Path(os.environ.get("STREAMLOG_PEERS", Path.home() / ".cache" / "streamlog-peers"))
JARS = CACHE / f"kafka-{KAFKA_VERSION}"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>"""


def why_unavailable() -> str | None:
    """The reason to skip, or None once the jars are there."""
    if shutil.which("java") is None:
        return "Kafka's own tools need Java, and there is no java on the PATH"
    if JARS.is_dir() and any(JARS.iterdir()):
        return None
    if shutil.which("mvn") is None:
        return "Kafka's own tools come by Maven, and there is no mvn on the PATH"
    project = CACHE / f"kafka-{KAFKA_VERSION}-pom"
    project.mkdir(parents=True, exist_ok=True)
    (project / "pom.xml").write_text(POM.format(version=KAFKA_VERSION))
    copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={JARS}"]
    result = subprocess.run(copy, cwd=project, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        shutil.rmtree(JARS, ignore_errors=True)
        return f"Maven could not bring Kafka {KAFKA_VERSION}: {result.stdout.strip()[-200:]}"
    return None


def kafka_tool(*arguments: str) -> str:
    """What one of Kafka's own programs says: the name of its class, and what stands behind it on its command line."""
    java = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    result = subprocess.run(
        [*java, "-cp", f"{JARS}/*", *arguments], capture_output=True, text=True, timeout=180, check=False
    )
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
