"""Leftovers of a compaction or a deletion after a crash. The next writer finishes or removes them, under the lock.

    *.deleted                    removed
    <base>.log.swap              whole and synced: replaces its segment; segments that it covers are removed
    <base>.txnindex.swap alone   only the last step is missing: segments that it covers may be left
    *.swap beside .log.cleaned   removed: the compaction did not get that far
    *.cleaned                    kept: a process may be writing it without the lock; the next compaction removes it
    an index or a key filter without its .log    removed

Every step can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker_core.ports import FileSystem
from broker_core.storage.batch_walk import walk_headers
from broker_core.storage.segment_names import (
    CLEANED,
    DELETED,
    INDEX_KINDS,
    KEY_FILTER,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    FolderListing,
    segment_path,
)


def finish_leftovers(fs: FileSystem, directory: str, listing: FolderListing) -> bool:
    """Returns whether anything changed; then list the folder again."""
    found = {(name.base_offset, name.kind, name.suffix) for name in listing.leftovers}
    finished = set()
    for base_offset in sorted({base for base, _, suffix in found if suffix == SWAP}):
        if (base_offset, LOG, SWAP) in found:
            path = segment_path(directory, base_offset, LOG, SWAP)
        elif (base_offset, TRANSACTION_INDEX, SWAP) in found and (base_offset, LOG, CLEANED) not in found:
            path = segment_path(directory, base_offset, LOG)
        else:
            continue
        put_swap_in_place(fs, directory, base_offset, _covered(fs, path, base_offset, listing.logs))
        finished.add(base_offset)
    stale = [
        str(name)
        for name in listing.leftovers
        if name.suffix == DELETED or (name.suffix == SWAP and name.base_offset not in finished)
    ]
    owned = listing.offset_indexes | listing.time_indexes | listing.transaction_indexes | listing.key_filters
    orphans = _owned_names(owned - {*listing.logs, *finished})
    for name in [*stale, *orphans]:
        remove_if_there(fs, f"{directory}/{name}")
    if stale or orphans:
        fs.sync_directory(directory)
    return bool(finished or stale or orphans)


def remove_cleaned(fs: FileSystem, directory: str, listing: FolderListing) -> None:
    """Removes the files of an unfinished compaction. Only a compactor may call it."""
    for name in listing.leftovers:
        if name.suffix == CLEANED:
            remove_if_there(fs, f"{directory}/{name}")


def put_swap_in_place(fs: FileSystem, directory: str, base_offset: int, covered: Iterable[int]) -> None:
    """Renames `<base>.*.swap` over the segment and drops the segments that it covers. Can be repeated."""
    # The filter of the old segment: still valid for the records that are left, but built for more.
    remove_if_there(fs, segment_path(directory, base_offset, KEY_FILTER))
    for kind in (OFFSET_INDEX, TIME_INDEX, LOG):
        _rename_if_there(fs, segment_path(directory, base_offset, kind))
    fs.sync_directory(directory)
    delete_segments(fs, directory, [covered_base for covered_base in covered if covered_base != base_offset])
    # The last one: while it is a .swap, covered segments may still exist.
    _rename_if_there(fs, segment_path(directory, base_offset, TRANSACTION_INDEX))
    fs.sync_directory(directory)


def _rename_if_there(fs: FileSystem, path: str) -> None:
    if fs.exists(path + SWAP):
        fs.rename(path + SWAP, path)


def delete_segments(fs: FileSystem, directory: str, base_offsets: Iterable[int]) -> None:
    """Removes segments with all their files. After a crash in between the next writer continues."""
    renamed = []
    for base_offset in base_offsets:
        # The .log first: without it, the segment's other files are recognized as leftovers.
        for kind in (LOG, *INDEX_KINDS, SNAPSHOT, KEY_FILTER):
            path = segment_path(directory, base_offset, kind)
            if fs.exists(path):
                fs.rename(path, path + DELETED)
                renamed.append(path + DELETED)
    for path in renamed:
        remove_if_there(fs, path)
    if renamed:
        fs.sync_directory(directory)


def remove_if_there(fs: FileSystem, path: str) -> None:
    try:
        fs.remove(path)
    except FileNotFoundError:
        return


def _covered(fs: FileSystem, path: str, base_offset: int, logs: Iterable[int]) -> list[int]:
    file = fs.open(path, writable=False)
    try:
        next_offset = base_offset
        for _, header in walk_headers(file, position=0, until_position=file.size_bytes(), min_offset=base_offset):
            next_offset = header.next_offset
    finally:
        file.close()
    return [log for log in logs if base_offset < log < next_offset]


def _owned_names(base_offsets: Iterable[int]) -> list[str]:
    kinds = (*INDEX_KINDS, KEY_FILTER)
    return [segment_path("", base, kind).lstrip("/") for base in sorted(base_offsets) for kind in kinds]
