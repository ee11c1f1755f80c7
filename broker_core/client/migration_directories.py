"""Whether directories of nodes that are to join a cluster belong to it, or to none yet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from broker_core.client.migration_check import MoveFinding, MoveVerdict
from broker_core.log_directory.meta_properties import META_PROPERTIES_FILE_NAME, decode_meta_properties
from broker_core.model.exceptions import DirectoryFormatError


def judge_directories(cluster_id: str, paths: Iterable[Path]) -> Iterator[MoveFinding]:
    for path in paths:
        subject, verdict, advice = f"directory {path}", MoveVerdict.OK, ""
        file = os.path.join(path, META_PROPERTIES_FILE_NAME)
        try:
            properties = decode_meta_properties(Path(file).read_bytes(), file)
        except FileNotFoundError:
            found = "belongs to no cluster yet: its node asks for the id"
        except (DirectoryFormatError, OSError) as error:
            verdict, found, advice = MoveVerdict.REFUSED, str(error), "give another directory"
        else:
            found = f"of node {properties.node_id}"
            if properties.cluster_id != cluster_id:
                verdict = MoveVerdict.REFUSED
                found += f" of the cluster {properties.cluster_id}; this one is {cluster_id}"
                advice = "give an empty directory, or format it for this cluster (streamlog storage format)"
        yield MoveFinding(subject=subject, verdict=verdict, found=found, advice=advice)
