import errno

import pytest

from broker_core.model.exceptions import DirectoryReadOnlyError, DiskFullError, StorageError
from broker_core.storage.storage_errors import storage_error, translated


@pytest.mark.parametrize(
    "number, kind",
    [
        (errno.ENOSPC, DiskFullError), (errno.EDQUOT, DiskFullError), (errno.EROFS, DirectoryReadOnlyError),
        (errno.EACCES, DirectoryReadOnlyError), (errno.EIO, StorageError), (errno.EFBIG, StorageError),
    ],
)  # fmt: skip
def test_each_operating_system_error_maps_to_its_exception(number, kind):
    with pytest.raises(kind, match="appending") as caught, translated("appending", "/p"):
        raise OSError(number, "reason", "/p/f")
    assert type(caught.value) is kind
    assert "/p" in caught.value.message


def test_a_limit_of_file_sizes_is_not_called_a_full_disk():
    error = storage_error("appending", "/p", OSError(errno.EFBIG, "File too large", "/p/f"))
    assert "RLIMIT_FSIZE" in error.message
    assert "space" not in error.message


def test_a_full_disk_names_only_remedies_that_the_command_line_has():
    message = storage_error("appending", "/p", OSError(errno.ENOSPC, "full", "/p/f")).message
    assert "streamlog log maintain" in message and "streamlog topic delete" in message
    assert "delete-records" not in message


def test_other_exceptions_pass_unchanged():
    with pytest.raises(KeyError), translated("appending", "/p"):
        raise KeyError("x")
