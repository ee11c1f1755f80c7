"""Azurite, Microsoft's emulator of Azure's blob storage, with an account of its own and an empty container.

It is found as STREAMLOG_AZURITE (the program azurite-blob) or on the PATH:

    npm install -g azurite
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.client import HTTPConnection
from pathlib import Path

import pytest
from support.objects.s3_servers import answers, free_port

ACCOUNT, ACCOUNT_KEY = "streamlog", base64.b64encode(b"an account key that nobody may see").decode()
VERSION = "2021-08-06"


@dataclass(frozen=True)
class Azurite:
    port: int

    def options(self) -> dict[str, str]:
        """Of `open_objects`."""
        return {
            "object.endpoint": f"http://127.0.0.1:{self.port}/{ACCOUNT}",
            "object.allow.http": "true",
            "object.account.name": ACCOUNT,
            "object.account.access.key": ACCOUNT_KEY,
            "object.max.retries": "1",
        }


@contextmanager
def azurite(folder: Path, container: str) -> Iterator[Azurite]:
    """Skips the test where the program is missing or does not start."""
    program = os.environ.get("STREAMLOG_AZURITE") or shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite is not installed: npm install -g azurite")
    port = free_port()
    address = ("--blobHost", "127.0.0.1", "--blobPort", str(port))
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            # The client library may speak a newer version of the protocol than the emulator knows.
            [program, *address, "--location", str(folder), "--skipApiVersionCheck", "--disableTelemetry", "--silent"],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"},
        )
    try:
        if not answers(port, process):
            pytest.skip(f"azurite does not start: {(folder / 'output').read_text()[-500:]}")
        _make_container(port, container)
        yield Azurite(port)
    finally:
        process.terminate()
        process.wait(30)


def _make_container(port: int, name: str) -> None:
    # https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
    date = formatdate(usegmt=True)
    place = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    to_sign = "PUT" + 12 * "\n" + f"x-ms-date:{date}\nx-ms-version:{VERSION}\n{place}"
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), to_sign.encode(), hashlib.sha256).digest()
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(
        "PUT",
        f"/{ACCOUNT}/{name}?restype=container",
        headers={
            "x-ms-date": date,
            "x-ms-version": VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
            "Content-Length": "0",
        },
    )
    answer = connection.getresponse()
    assert answer.status == 201, (answer.status, answer.read())
    connection.close()
