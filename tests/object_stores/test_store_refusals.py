"""The error of a wrong setting names the cause, the place and the setting, and never a secret."""

from __future__ import annotations

import logging
import sys

import pytest
from support.objects.s3_servers import ACCESS_KEY, BUCKET, SECRET_KEY, free_port

from broker_core.model.exceptions import (
    InvalidConfigError,
    ObjectPermissionError,
    ObjectStoreError,
    ObjectStoreUnavailableError,
    ObjectStoreUnsuitableError,
)
from broker_core.object_cluster.open_objects import open_objects
from broker_core.object_store.open_store import open_store

OTHER_SECRET = "another-secret-that-must-not-be-shown"


def refused(url, options, kind, *words):
    """Opening and creating both raise an error of this kind with these words."""
    texts = []
    for call in (lambda log: log.describe_topics(), lambda log: log.create_topic("t")):
        with open_objects(url, options, create=True) as log, pytest.raises(kind) as caught:
            call(log)
        texts.append(str(caught.value))
        assert all(word in texts[-1] for word in words), texts[-1]
        shown = f"{caught.value!r} {caught.value.fields} {caught.value.__cause__} {log!r}"
        assert not any(secret in shown for secret in (SECRET_KEY, OTHER_SECRET, ACCESS_KEY)), shown
    return texts


def test_a_missing_bucket_is_reported(s3_server):
    refused(
        "s3://nobody/log", s3_server.options(), ObjectStoreUnsuitableError, "'nobody' does not exist", "object.endpoint"
    )


def test_a_wrong_secret_key_is_reported(versitygw_server, new_url):
    options = versitygw_server.options(secret_access_key=OTHER_SECRET)
    refused(new_url, options, ObjectPermissionError, "SignatureDoesNotMatch", "object.*")


def test_an_unknown_access_key_is_reported(versitygw_server, new_url):
    options = versitygw_server.options(access_key_id="AKIAABCDEFGHIJKLMNOP")
    texts = refused(new_url, options, ObjectPermissionError, "object.*")
    assert "AKIAABCDEFGHIJKLMNOP" not in "".join(texts)


def test_a_wrong_region_is_reported(versitygw_server, new_url):
    refused(new_url, versitygw_server.options(region="eu-north-1"), ObjectStoreError, "region")


def test_an_unreachable_endpoint_is_reported(new_url):
    options = {
        "object.endpoint": f"http://127.0.0.1:{free_port()}",
        "object.allow.http": "true",
        "object.max.retries": "0",
        "object.access.key.id": ACCESS_KEY,
        "object.secret.access.key": OTHER_SECRET,
    }
    refused(new_url, options, ObjectStoreUnavailableError, "cannot be reached", "object.endpoint")


def test_an_http_endpoint_must_be_allowed(s3_server, new_url, monkeypatch):
    options = s3_server.options(max_retries="0") | {"object.allow.http": "false"}
    with pytest.raises(InvalidConfigError, match=r"object\.allow\.http"):
        open_objects(new_url, options)
    monkeypatch.setenv("AWS_ENDPOINT_URL", options.pop("object.endpoint"))
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with open_objects(new_url, options) as log, pytest.raises(ObjectStoreError, match=r"object\.allow\.http"):
        log.describe_topics()


def test_a_missing_client_library_is_reported_with_how_to_install_it(monkeypatch, new_url):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ObjectStoreUnsuitableError, match="pip install obstore"):
        open_store(new_url)


def test_a_folder_needs_no_client_library(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with open_objects(f"objects://{tmp_path}/log", create=True) as log:
        log.create_topic("t")


def test_no_secret_is_logged(versitygw_server, new_url, caplog):
    caplog.set_level(logging.DEBUG)
    with open_objects(new_url, versitygw_server.options(), create=True) as log:
        log.create_topic("t")
        log.maintain()
    assert SECRET_KEY not in caplog.text


def test_the_url_has_the_bucket(s3_server, new_url):
    assert BUCKET in open_store(new_url, s3_server.options()).url
