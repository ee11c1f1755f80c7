"""A real directory on a disk that is full from a moment on."""

from __future__ import annotations

import errno
import os

from broker_core.storage.os_file_system import OsFileSystem


class FilledDisk(OsFileSystem):
    """When `is_full`, nothing new fits on the disk; folders do, if `has_folders`."""

    is_full = False
    has_folders = False
    refused_count = 0

    def make_directory(self, path):
        if self.is_full and not self.has_folders:
            self._refuse(path)
        super().make_directory(path)

    def open(self, path, *, writable, create=False):
        if create and self.is_full and not self.exists(path):
            self._refuse(path)
        return super().open(path, writable=writable, create=create)

    def _refuse(self, path):
        self.refused_count += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
