"""Google Cloud Storage and Azure by the command line, with their own errors."""

from __future__ import annotations

import io
import sys

import pytest
from object_stores.conftest import place_on
from support.objects.azurite import ACCOUNT, ACCOUNT_KEY
from support.objects.s3_servers import BUCKET

from broker_core.cli.command_line import run
from broker_core.model.exceptions import ObjectPermissionError, ObjectPreconditionError, ObjectStoreUnsuitableError
from broker_core.object_cluster.open_objects import open_objects
from broker_core.object_store.open_store import open_store


@pytest.fixture(params=["azurite", "gcs"])
def place(request, new_url, tmp_path):
    return place_on(request.param, request, new_url, tmp_path)


def test_the_command_line_creates_a_topic_produces_and_consumes(place, tmp_path, monkeypatch, capsysbinary):
    url, options = place
    properties = tmp_path / "store.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in options.items()))

    def streamlog(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        assert run([*arguments, "--path", url, "--command-config", str(properties)]) == 0
        return capsysbinary.readouterr().out.splitlines()

    streamlog("topic", "create", "t", "--partitions", "2")
    streamlog("produce", "t", "--partition", "1", stdin=b"a\nb\n")
    assert streamlog("consume", "t", "--group", "g") == [b"a", b"b"]
    streamlog("produce", "t", "--partition", "1", stdin=b"c\n")
    assert streamlog("consume", "t", "--group", "g") == [b"c"]
    assert streamlog("group", "list") == [b"g"]
    assert any(line.startswith(b"t") for line in streamlog("topic", "list"))


def test_a_replacement_on_gcs_uses_a_generation_instead_of_if_match(gcs_server, new_url):
    store = open_store(*place_of(gcs_server, new_url))
    first = store.put_if_absent("groups/g", b"same")
    assert first.isdigit()
    second = store.put_if_matches("groups/g", b"other", first)
    third = store.put_if_matches("groups/g", b"same", second)
    # The ETag is that of the first version again: the generation is not.
    with pytest.raises(ObjectPreconditionError):
        store.put_if_matches("groups/g", b"late", first)
    assert store.get("groups/g").etag == third


def place_of(server, new_url):
    return new_url.replace("s3://", "gs://"), server.options()


def test_the_account_may_be_in_a_hadoop_url(azurite_server, new_url):
    options = azurite_server.options()
    prefix = new_url.removeprefix(f"s3://{BUCKET}/")
    with open_objects(f"az://{BUCKET}/{prefix}", options, create=True) as log:
        log.create_topic("t")
    del options["object.account.name"]
    with open_objects(f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net/{prefix}", options) as log:
        assert log.describe_topics().keys() == {"t"}


def test_a_missing_container_and_a_wrong_key_are_reported(azurite_server, new_url):
    options = azurite_server.options()
    with open_objects("az://nobody/log", options, create=True) as log:
        with pytest.raises(ObjectStoreUnsuitableError, match="'nobody' does not exist") as caught:
            log.create_topic("t")
        assert "RequestId" not in str(caught.value)
    wrong = options | {"object.account.access.key": "AAAA" + ACCOUNT_KEY[4:]}
    with open_objects(new_url.replace("s3://", "az://"), wrong, create=True) as log:
        with pytest.raises(ObjectPermissionError, match=r"object\.\*.*AuthorizationFailure") as caught:
            log.create_topic("t")
        assert ACCOUNT_KEY[4:] not in str(caught.value)
