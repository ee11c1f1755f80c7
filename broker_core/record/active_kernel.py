"""The kernel in use: the native one if it was built, else its slow twin.

STREAMLOG_PURE_KERNEL=1 in the environment forces the twin; the native module itself reads it, as this package reads no
environment. If the native kernel was not built, a RuntimeWarning says so once per process: pip hides the build output.
"""

from __future__ import annotations

import warnings
from typing import cast

from broker_core.record import pure_kernel
from broker_core.record.kernel_protocol import Kernel

PURE_KERNEL = cast(Kernel, pure_kernel)
NATIVE_KERNEL: Kernel | None

try:
    import broker_core.record.kernel as _native
except ImportError:
    NATIVE_KERNEL = None
    KERNEL = PURE_KERNEL
    warnings.warn(
        "spark-streamlog uses its slow record kernel because the native one was not built: install a C compiler and "
        "reinstall the package",
        RuntimeWarning,
        stacklevel=1,
    )
else:
    NATIVE_KERNEL = cast(Kernel, _native)
    KERNEL = PURE_KERNEL if _native.is_switched_off() else NATIVE_KERNEL

KERNEL_NAME: str = KERNEL.KERNEL_NAME
"""`native` or `pure`."""
