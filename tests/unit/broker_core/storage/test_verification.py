from support.builders.builders import a_batch
from support.builders.store_builders import DIRECTORY, SMALL_SEGMENTS, a_disk, a_store, append, files_of


def a_log(fs):
    store = a_store(fs, **SMALL_SEGMENTS)
    for _ in range(12):
        append(store)
    return store


def test_an_intact_log_has_no_findings_and_verification_reports_progress():
    store, seen = a_log(a_disk()), []
    assert store.verify(lambda done, total: seen.append((done, total))) == []
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1] == sum(s.size_bytes for s in store.segments())


def test_damage_is_found_in_every_batch_and_verification_continues_after_it():
    fs = a_disk()
    store = a_log(fs)
    path = files_of(fs, "log")[0]
    content = bytearray(fs.content(path))
    content[90] ^= 1
    content[len(a_batch(3)) + 90] ^= 1
    fs.overwrite(path, bytes(content))
    findings = [f for f in store.verify() if f.is_damage]
    assert [(f.file, f.position, f.offset) for f in findings] == [(path, 0, 0), (path, len(a_batch(3)), 3)]


def test_a_wrong_index_is_found_but_is_not_damage():
    fs = a_disk()
    a_log(fs)
    for kind in ("index", "timeindex"):
        path = files_of(fs, kind)[1]
        content = fs.content(path)
        fs.overwrite(path, content[:-1] + bytes([content[-1] ^ 1]))
        findings = a_store(fs, writable=False).verify()
        assert findings
        assert all(f.file == path and not f.is_damage for f in findings)
        fs.overwrite(path, content)


def test_a_dump_shows_every_batch_with_its_position():
    fs = a_disk()
    store = a_log(fs)
    dumped = list(store.dump())
    assert [b.header.base_offset for b in dumped] == list(range(0, 36, 3))
    assert all(b.problem is None and b.file.startswith(DIRECTORY) for b in dumped)
