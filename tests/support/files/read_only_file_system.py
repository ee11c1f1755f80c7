"""The operating system's file system as a read-only mount shows it."""

import errno
import os

from broker_core.storage.os_file_system import OsFileSystem


class ReadOnlyFileSystem(OsFileSystem):
    """Every attempt to change something is refused with EROFS and remembered in `refused`."""

    def __init__(self):
        self.refused = []

    def open(self, path, *, writable, create=False):
        if writable or (create and not self.exists(path)):
            self._refuse("open", path)
        return super().open(path, writable=False)

    def make_directory(self, path):
        self._refuse("make_directory", path)

    def rename(self, source, target):
        self._refuse("rename", source)

    def remove(self, path):
        self._refuse("remove", path)

    def remove_tree(self, path):
        self._refuse("remove_tree", path)

    def _refuse(self, call, path):
        self.refused.append((call, path))
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
