"""The kernel refuses system calls to this process from now on: what a failing disk does, below every layer of ours.

    refuse_from_now_on("fdatasync")      every thread of the process gets EIO for it; there is no way back

A filter of seccomp(2), which any process may put on itself. It shows that a call is really made, by any process:
Python, or the native threads that sync without it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

_NUMBERS = {
    "x86_64": {"seccomp": 317, "fsync": 74, "fdatasync": 75},
    "aarch64": {"seccomp": 277, "fsync": 82, "fdatasync": 83},
}
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_LOAD_NUMBER, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def refuse_from_now_on(*names: str) -> None:
    """Raises OSError where the kernel knows no such filters, KeyError on other processors."""
    numbers = _NUMBERS[platform.machine()]
    refused = [numbers[name] for name in names]
    instructions = [struct.pack("=HBBI", _LOAD_NUMBER, 0, 0, 0)]
    for slot, number in enumerate(refused):
        instructions.append(struct.pack("=HBBI", _JUMP_IF_EQUAL, len(refused) - slot, 0, number))
    instructions += [struct.pack("=HBBI", _RETURN, 0, 0, what) for what in (_ALLOW, _ERROR | errno.EIO)]
    program = _Program(len(instructions), b"".join(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if libc.syscall(numbers["seccomp"], _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
