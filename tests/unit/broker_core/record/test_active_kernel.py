"""Which kernel is in use."""

import os
import subprocess
import sys

import pytest

from broker_core.record import active_kernel

ASK = "from broker_core.record.columns import KERNEL_NAME; print(KERNEL_NAME)"


@pytest.mark.parametrize(("wish", "expected"), [("1", {"pure"}), ("", {"native", "pure"}), ("0", {"native", "pure"})])
def test_an_environment_variable_selects_the_slow_kernel(wish, expected):
    environment = os.environ | {"STREAMLOG_PURE_KERNEL": wish}
    answer = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() in expected


def test_without_a_native_kernel_the_slow_kernel_is_used():
    block = "import sys; sys.modules['broker_core.record.kernel'] = None; "
    answer = subprocess.run([sys.executable, "-c", block + ASK], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "pure"


def test_kernel_name_identifies_the_kernel_in_use():
    assert active_kernel.KERNEL_NAME == active_kernel.KERNEL.KERNEL_NAME
