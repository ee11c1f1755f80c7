import os

import pytest

from broker_core.storage.os_file_system import OsFileSystem


@pytest.fixture
def fs():
    return OsFileSystem()


def test_data_is_read_back_at_its_position(fs, tmp_path):
    file = fs.open(f"{tmp_path}/f", writable=True, create=True)
    file.write_at(5, memoryview(b"hello"))
    assert (file.read_at(0, 100), file.size_bytes()) == (b"\0\0\0\0\0hello", 10)
    assert file.read_at(7, 2) == b"ll"
    file.truncate(7)
    file.sync()
    assert file.read_at(0, 100) == b"\0\0\0\0\0he"


def test_a_partial_write_is_continued(fs, tmp_path, monkeypatch):
    real, calls = os.pwrite, []
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: calls.append(at) or real(fd, bytes(data)[:3], at))
    fs.open(f"{tmp_path}/f", writable=True, create=True).write_at(1, b"0123456789")
    assert (tmp_path / "f").read_bytes() == b"\x000123456789"
    assert calls == [1, 4, 7, 10]


def test_a_large_write_is_split_into_pieces_without_large_pages(fs, tmp_path, monkeypatch):
    real, sizes = os.pwrite, []
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: sizes.append(len(data)) or real(fd, data, at))
    content = os.urandom(5 * 1024 * 1024 // 2)
    fs.open(f"{tmp_path}/f", writable=True, create=True).write_at(1, content)
    assert (tmp_path / "f").read_bytes() == b"\0" + content
    assert sizes == [1024 * 1024, 1024 * 1024, 512 * 1024]


def test_a_partial_read_is_continued(fs, tmp_path, monkeypatch):
    (tmp_path / "f").write_bytes(b"0123456789")
    real, calls = os.pread, []
    monkeypatch.setattr(os, "pread", lambda fd, count, at: calls.append(at) or real(fd, min(count, 4), at))
    assert fs.open(f"{tmp_path}/f", writable=False).read_at(1, 100) == b"123456789"
    assert calls == [1, 5, 9, 10]


@pytest.mark.parametrize("size_bytes", [10, 1_000_000], ids=["small", "large"])
def test_a_view_of_a_file_has_its_content(fs, tmp_path, size_bytes):
    content = os.urandom(size_bytes)
    (tmp_path / "f").write_bytes(content)
    file = fs.open(f"{tmp_path}/f", writable=False)
    first, rest = file.view_at(0, size_bytes), file.view_at(3, 2 * size_bytes)
    assert (bytes(first), bytes(rest)) == (content, content[3:])
    assert bytes(file.view_at(size_bytes, 2 * size_bytes)) == b""


def test_a_partial_read_of_a_view_is_continued(fs, tmp_path, monkeypatch):
    content = os.urandom(300_000)
    (tmp_path / "f").write_bytes(content)
    real, calls = os.preadv, []

    def short(fd, buffers, at):
        calls.append(at)
        return real(fd, [buffers[0][:200_000]], at)

    monkeypatch.setattr(os, "preadv", short)
    assert bytes(fs.open(f"{tmp_path}/f", writable=False).view_at(0, 400_000)) == content
    assert calls == [0, 200_000, 300_000]


def test_opening_a_missing_file_fails_and_does_not_create_it(fs, tmp_path):
    with pytest.raises(FileNotFoundError):
        fs.open(f"{tmp_path}/f", writable=True)
    assert fs.list_directory(str(tmp_path)) == []


def test_directories_can_be_listed_renamed_and_removed(fs, tmp_path):
    root = str(tmp_path)
    fs.make_directory(f"{root}/d")
    for name in ("b", "a"):
        fs.open(f"{root}/d/{name}", writable=True, create=True).close()
    assert fs.list_directory(f"{root}/d") == ["a", "b"]
    fs.rename(f"{root}/d/a", f"{root}/d/b")
    fs.sync_directory(f"{root}/d")
    assert fs.list_directory(f"{root}/d") == ["b"]
    fs.remove(f"{root}/d/b")
    assert fs.exists(f"{root}/d")
    fs.remove_tree(f"{root}/d")
    assert not fs.exists(f"{root}/d")
    assert 0 < fs.free_bytes(root) <= fs.total_bytes(root)


def test_closing_twice_does_not_close_another_file(fs, tmp_path):
    file = fs.open(f"{tmp_path}/f", writable=True, create=True)
    file.close()
    other = fs.open(f"{tmp_path}/g", writable=True, create=True)
    file.close()
    other.write_at(0, b"x")
    assert other.modified_ms() > 0
