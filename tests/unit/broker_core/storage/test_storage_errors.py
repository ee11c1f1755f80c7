import errno

import pytest

from broker_core.model.exceptions import DirectoryReadOnlyError, DiskFullError, StorageError
from broker_core.storage.storage_errors import translated


@pytest.mark.parametrize(
    "number, kind",
    [
        (errno.ENOSPC, DiskFullError), (errno.EDQUOT, DiskFullError), (errno.EROFS, DirectoryReadOnlyError),
        (errno.EACCES, DirectoryReadOnlyError), (errno.EIO, StorageError),
    ],
)  # fmt: skip
def test_each_operating_system_error_maps_to_its_exception(number, kind):
    with pytest.raises(kind, match="appending") as caught, translated("appending", "/p"):
        raise OSError(number, "reason", "/p/f")
    assert type(caught.value) is kind
    assert "/p" in caught.value.message


def test_other_exceptions_pass_unchanged():
    with pytest.raises(KeyError), translated("appending", "/p"):
        raise KeyError("x")
