"""The stores that these suites run on: two real servers that speak S3, Azure's emulator, a server that speaks GCS's
protocol, a folder, and the one in memory.
"""

from __future__ import annotations

import itertools

import pytest
from support.objects.azurite import azurite
from support.objects.faulty_proxy import FaultyProxy
from support.objects.gcs_server import gcs
from support.objects.s3_servers import BUCKET, S3Server, moto, versitygw

_prefixes = itertools.count()


@pytest.fixture(scope="session")
def versitygw_server(tmp_path_factory):
    with versitygw(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


@pytest.fixture(scope="session")
def moto_server():
    with moto() as server:
        yield server


@pytest.fixture(scope="session")
def azurite_server(tmp_path_factory):
    with azurite(tmp_path_factory.mktemp("azurite"), BUCKET) as server:
        yield server


@pytest.fixture(scope="session")
def gcs_server():
    with gcs(BUCKET) as server:
        yield server


@pytest.fixture(params=["versitygw", "moto"])
def s3_server(request) -> S3Server:
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture
def new_url():
    """The URL of a log that does not exist yet, in the servers' bucket."""
    return f"s3://{BUCKET}/logs/{next(_prefixes)}"


@pytest.fixture(params=["versitygw", "moto", "azurite", "gcs", "folder"])
def place(request, new_url, tmp_path):
    """(URL, options) of a log that does not exist yet."""
    return place_on(request.param, request, new_url, tmp_path)


def place_on(store, request, new_url, tmp_path):
    if store == "folder":
        return f"objects://{tmp_path}/log", {}
    scheme = {"azurite": "az", "gcs": "gs"}.get(store, "s3")
    return new_url.replace("s3://", f"{scheme}://"), request.getfixturevalue(f"{store}_server").options()


@pytest.fixture
def proxied(versitygw_server, new_url):
    """(URL, options, proxy): every request goes through the proxy."""
    proxy = FaultyProxy(versitygw_server.port)
    options = versitygw_server.options(endpoint=f"http://127.0.0.1:{proxy.port}", max_retries="2")
    yield new_url, options, proxy
    proxy.close()
