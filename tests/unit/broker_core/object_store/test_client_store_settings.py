"""What the client library itself finds wrong with the settings of a store, before anything is sent or when it is."""

import os

import pytest

from broker_core.model.exceptions import (
    ObjectOutcomeUnknownError,
    ObjectPermissionError,
    ObjectStoreUnavailableError,
    ObjectStoreUnsuitableError,
)
from broker_core.model.store_settings import parse_store_settings
from broker_core.object_store.client_store import open_client_store

pytest.importorskip("obstore", reason="obstore is not installed: pip install 'spark-streamlog[objects]'")

NOBODY = {"object.endpoint": "http://127.0.0.1:9", "object.allow.http": "true"}
KEY = {"object.access.key.id": "an-id", "object.secret.access.key": "a-secret"}
IMPATIENT = {"object.max.retries": "0", "object.timeout.ms": "2000", "object.connect.timeout.ms": "1000"}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Without variables of a store, but those that a test sets."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    return monkeypatch


def refusal(url, options, kind):
    """What the first of opening and a read says."""
    with pytest.raises(kind) as raised:
        open_client_store(parse_store_settings(url, IMPATIENT | options)).get("commits/1")
    assert type(raised.value) is kind
    assert "a-secret" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("url", "variables", "words"),
    [
        (
            "s3://b/log",
            {"AWS_SECRET_ACCESS_KEY": "a-secret"},
            ("without the id", "object.access.key.id", "AWS_ACCESS_KEY_ID"),
        ),
        ("s3://b/log", {"AWS_ACCESS_KEY_ID": "x"}, ("without its secret", "object.secret.access.key")),
        (
            "s3://b/log",
            {"AWS_WEB_IDENTITY_TOKEN_FILE": "/no/such/file", "AWS_ROLE_ARN": "arn:aws:iam::1:role/x"},
            ("token cannot be read", "/no/such/file", "object.access.key.id"),
        ),
        (
            "s3://b/log",
            {"AWS_ACCESS_KEY_ID": "a\nb", "AWS_SECRET_ACCESS_KEY": "a-secret"},
            ("line end", "AWS_ACCESS_KEY_ID"),
        ),
        (
            "gs://b/log",
            {"GOOGLE_APPLICATION_CREDENTIALS": "/no/such/file"},
            ("/no/such/file", "object.service.account.path"),
        ),
        (
            "az://c/log",
            {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCOUNT_KEY": "%"},
            ("base64", "AZURE_STORAGE_ACCOUNT_KEY"),
        ),
        (
            "az://c/log",
            {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_SAS_KEY": "x"},
            ("query of a URL", "object.sas.token"),
        ),
    ],
)
def test_credentials_that_cannot_be_used_are_named_with_what_sets_them(environment, url, variables, words):
    for name, value in variables.items():
        environment.setenv(name, value)
    said = refusal(url, NOBODY if url.startswith("s3") else {}, ObjectPermissionError)
    assert said.startswith(url)
    for word in words:
        assert word in said


def test_a_missing_account_is_named_with_what_sets_it():
    said = refusal("az://c/log", {}, ObjectStoreUnsuitableError)
    for word in ("az://c/log", "account is missing", "object.account.name", "AZURE_STORAGE_ACCOUNT_NAME", "abfss://"):
        assert word in said


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("s3://b/log", "https://[::1"),
        ("s3://b/log", "https://host:99999"),
        ("s3://b/log", "https://h\u00f6st"),
        ("s3://b b/log", "https://host:9000"),
    ],
)
def test_an_address_that_is_none_is_an_error_of_ours_and_not_a_panic_of_the_library(url, endpoint):
    options = KEY | {"object.endpoint": endpoint}
    said = refusal(url, options, ObjectStoreUnsuitableError)
    for word in (url, "no address can be made", "object.endpoint", "bucket"):
        assert word in said
    store = open_client_store(parse_store_settings(url, IMPATIENT | options))
    with pytest.raises(ObjectStoreUnsuitableError, match="no address can be made"):
        store.put_if_absent("commits/1", b"")


def test_an_address_in_the_environment_is_named_too(environment):
    environment.setenv("AWS_ENDPOINT_URL", "no address")
    assert "AWS_ENDPOINT_URL" in refusal("s3://b/log", KEY, ObjectStoreUnsuitableError)
    environment.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    said = refusal("s3://b/log", KEY, ObjectStoreUnsuitableError)
    for word in ("no TLS", "object.allow.http=true", "AWS_ALLOW_HTTP", "AWS_ENDPOINT_URL"):
        assert word in said


def test_a_server_that_does_not_run_is_named_with_the_option_for_reads_and_writes():
    said = refusal("s3://b/log", NOBODY | KEY, ObjectStoreUnavailableError)
    for word in ("s3://b/log/commits/1 cannot be reached", "127.0.0.1:9", "object.endpoint"):
        assert word in said
    store = open_client_store(parse_store_settings("s3://b/log", IMPATIENT | NOBODY | KEY))
    with pytest.raises(ObjectOutcomeUnknownError, match=r"may or may not have happened.*object\.endpoint"):
        store.put_if_absent("commits/1", b"")


def test_a_setting_of_the_environment_that_the_library_does_not_understand_is_named(environment):
    environment.setenv("AWS_CONDITIONAL_PUT", "zz")
    said = refusal("s3://b/log", NOBODY | KEY, ObjectStoreUnsuitableError)
    for word in ("cannot be opened", '"zz"', "object.*", "AWS_*"):
        assert word in said
