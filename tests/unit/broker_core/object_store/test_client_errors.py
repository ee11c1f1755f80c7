"""Texts as obstore gives them, recorded from real answers (S3's are those of versitygw)."""

import pytest

from broker_core.model.exceptions import (
    ObjectNotFoundError,
    ObjectOutcomeUnknownError,
    ObjectPermissionError,
    ObjectPreconditionError,
    ObjectStoreUnavailableError,
    ObjectStoreUnsuitableError,
    ObjectThrottledError,
)
from broker_core.model.store_settings import parse_store_settings
from broker_core.object_store.client_errors import StoreOperation, translated

READ, WRITE = StoreOperation.READ, StoreOperation.WRITE

SECRET = "topsecret"
SETTINGS = parse_store_settings("s3://bucket/log", {"object.secret.access.key": SECRET})


class GenericError(Exception):
    pass


class AlreadyExistsError(Exception):
    pass


class PermissionDeniedError(Exception):
    pass


def answer(status, code, message="Words."):
    body = f"<Error><Code>{code}</Code><Message>{message}</Message><HostId>x</HostId></Error>" if code else ""
    xml = f'<?xml version="1.0" encoding="UTF-8"?>\n{body}' if body else ""
    return (
        f"Generic S3 error: Error performing GET http://h/bucket/log/x?sig=abc in 1ms - Server returned non-2xx status"
        f" code: {status}: {xml}\n\nDebug source:\nGeneric {{ {SECRET} }}"
    )


def kind_of(kind, text, operation=READ):
    return type(translated(kind(text), SETTINGS, "commits/1", operation))


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (FileNotFoundError, answer("404 Not Found", "NoSuchKey"), ObjectNotFoundError),
        (FileNotFoundError, answer("404 Not Found", "BlobNotFound"), ObjectNotFoundError),
        (FileNotFoundError, answer("404 Not Found", ""), ObjectNotFoundError),
        (FileNotFoundError, answer("404 Not Found", "NoSuchBucket"), ObjectStoreUnsuitableError),
        (FileNotFoundError, answer("404 Not Found", "ContainerNotFound"), ObjectStoreUnsuitableError),
        (FileNotFoundError, answer("404 Not Found", "XAdminUserNotFound"), ObjectPermissionError),
        (FileNotFoundError, answer("404 Not Found", "Anything"), ObjectStoreUnavailableError),
        (
            FileNotFoundError,
            answer("404 Not Found", "").replace("404 Not Found: ", "404 Not Found: <html>nginx</html>"),
            ObjectStoreUnavailableError,
        ),
        (PermissionDeniedError, answer("403 Forbidden", "SignatureDoesNotMatch"), ObjectPermissionError),
        (GenericError, answer("400 Bad Request", "ExpiredToken"), ObjectPermissionError),
        (GenericError, answer("400 Bad Request", "AuthorizationHeaderMalformed"), ObjectStoreUnsuitableError),
        (GenericError, answer("301 Moved Permanently", "PermanentRedirect"), ObjectStoreUnsuitableError),
        (GenericError, answer("503 Slow Down", "SlowDown"), ObjectThrottledError),
        (GenericError, answer("429 Too Many Requests", ""), ObjectThrottledError),
        (GenericError, answer("501 Not Implemented", "NotImplemented"), ObjectStoreUnsuitableError),
        (GenericError, answer("500 Internal Server Error", "InternalError"), ObjectStoreUnavailableError),
        (GenericError, "Generic S3 error: HTTP error: error sending request", ObjectStoreUnavailableError),
        (GenericError, "Generic S3 error: PUT http://169.254.169.254/latest/api/token", ObjectPermissionError),
    ],
)
def test_each_failed_read_maps_to_its_exception(kind, text, expected):
    assert kind_of(kind, text) is expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (AlreadyExistsError, answer("412 Precondition Failed", "PreconditionFailed"), ObjectPreconditionError),
        (GenericError, answer("409 Conflict", "ConditionalRequestConflict"), ObjectPreconditionError),
        (GenericError, answer("500 Internal Server Error", "InternalError"), ObjectOutcomeUnknownError),
        (GenericError, "Generic S3 error: HTTP error: request timed out", ObjectOutcomeUnknownError),
        (GenericError, answer("503 Slow Down", "SlowDown"), ObjectThrottledError),
        (GenericError, answer("400 Bad Request", "EntityTooLarge"), ObjectStoreUnavailableError),
    ],
)
def test_a_write_without_a_clear_response_has_an_unknown_outcome(kind, text, expected):
    assert kind_of(kind, text, WRITE) is expected


def test_error_messages_have_code_and_message_but_no_secret():
    text = answer("403 Forbidden", "AccessDenied", f"Key AKIAABCDEFGHIJKLMNOP with {SECRET} may not.")
    error = translated(PermissionDeniedError(text), SETTINGS, "data/x", WRITE)
    for shown in ("s3://bucket/log/data/x cannot be written", "403", "AccessDenied", "may not."):
        assert shown in str(error)
    for hidden in (SECRET, "AKIAABCDEFGHIJKLMNOP", "sig=abc", "HostId", "Debug"):
        assert hidden not in str(error)


ROLE_REQUESTS = {
    "s3": ("Error performing PUT http://169.254.169.254/latest/api/token", "AWS_SECRET_ACCESS_KEY"),
    "gs": (
        "Error performing GET http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token",
        "object.service.account.path",
    ),
    "az": ("Error performing GET http://169.254.169.254/metadata/identity/oauth2/token", "AZURE_STORAGE_ACCOUNT_KEY"),
}


@pytest.mark.parametrize("provider", ROLE_REQUESTS)
@pytest.mark.parametrize("operation", [READ, WRITE])
@pytest.mark.parametrize(
    "end",
    [
        " in 5.1s, after 5 retries - HTTP error: request timed out",
        " in 1ms - Server returned non-2xx status code: 404: ",
    ],
)
def test_missing_credentials_are_reported_with_the_options_that_set_them(provider, operation, end):
    request, advice = ROLE_REQUESTS[provider]
    settings = parse_store_settings(f"{provider}://bucket/log")
    error = translated(GenericError(request + end), settings, "commits/1", operation)
    assert isinstance(error, ObjectPermissionError)
    assert str(error).startswith(f"{provider}://bucket/log: no credentials were found")
    assert advice in str(error)


def test_a_container_whose_role_does_not_answer_has_no_credentials():
    text = "Generic S3 error: Error performing GET http://169.254.170.2/v2/credentials/x in 1ms - HTTP error: x"
    assert "no credentials were found" in str(translated(GenericError(text), SETTINGS, "x", READ))


@pytest.mark.parametrize(
    "text",
    [
        answer("301 Moved Permanently", "PermanentRedirect"),
        "Generic S3 error: Error performing GET https://s3.us-east-1.amazonaws.com/bucket/log/x in 1ms - Received"
        " redirect without LOCATION, this normally indicates an incorrectly configured region",
    ],
)
def test_a_missing_region_is_reported_with_the_option_that_sets_it(text):
    error = translated(GenericError(text), SETTINGS, "x", WRITE)
    assert isinstance(error, ObjectStoreUnsuitableError)
    for words in ("not in the default region", "object.region", "AWS_REGION", "us-east-1"):
        assert words in str(error)


def test_a_wrong_region_is_distinguished_from_a_missing_one():
    settings = parse_store_settings("s3://bucket/log", {"object.region": "eu-west-1"})
    error = translated(GenericError(answer("301 Moved", "PermanentRedirect")), settings, "x", READ)
    assert "not in the region of object.region" in str(error)


@pytest.mark.parametrize(("provider", "advice"), [("s3", "object.session.token"), ("az", "object.sas.token")])
def test_expired_credentials_are_distinguished_from_wrong_ones(provider, advice):
    settings = parse_store_settings(f"{provider}://bucket/log")
    error = translated(GenericError(answer("400 Bad Request", "ExpiredToken")), settings, "x", WRITE)
    assert isinstance(error, ObjectPermissionError)
    for words in ("may not be written", "have expired", "ExpiredToken", advice):
        assert words in str(error)


def test_a_prefix_that_looks_like_an_error_code_is_ignored():
    settings = parse_store_settings("s3://bucket/SlowDown/AccessDenied/credential")
    text = answer("404 Not Found", "NoSuchKey").replace("log/x", "SlowDown/AccessDenied/credential/x")
    assert type(translated(FileNotFoundError(text), settings, "x", READ)) is ObjectNotFoundError


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("InvalidAccessKeyId", "does not know this key"),
        ("SignatureDoesNotMatch", "does not belong to the id"),
        ("RequestTimeTooSkewed", "clock of this machine"),
        ("InvalidToken", "session token"),
        (
            "AccessDenied",
            "They need s3:GetObject for this request; a log needs s3:GetObject, s3:PutObject, s3:Del",
        ),
        ("", "They need s3:GetObject"),
    ],
)
def test_refused_credentials_are_reported_with_the_reason_and_where_they_are_from(code, reason):
    given = {"object.access.key.id": "an-id", "object.secret.access.key": SECRET, "object.region": "eu-west-1"}
    for options, origin in (
        (given, "They come from the options object.*: object.access.key.id and object.secret.access.key."),
        ({}, "as no options object.* set them. Set object.access.key.id"),
    ):
        settings = parse_store_settings("s3://bucket/log", options)
        error = translated(PermissionDeniedError(answer("403 Forbidden", code)), settings, "data/x", READ)
        assert isinstance(error, ObjectPermissionError)
        for words in ("s3://bucket/log/data/x cannot be read", reason, origin):
            assert words in str(error)


@pytest.mark.parametrize(("provider", "permission"), [("gs", "storage.objects.get"), ("az", "Storage Blob Data")])
def test_a_missing_permission_is_named_as_the_provider_calls_it(provider, permission):
    settings = parse_store_settings(f"{provider}://bucket/log")
    error = translated(PermissionDeniedError(answer("403 Forbidden", "AccessDenied")), settings, "x", WRITE)
    assert permission in str(error)


@pytest.mark.parametrize("word", ["SAS", "token file", "InvalidUri", "builder error", "service account", "pem file"])
@pytest.mark.parametrize("provider", ["s3", "gs", "az"])
def test_a_prefix_that_looks_like_a_wrong_setting_is_ignored(provider, word):
    settings = parse_store_settings(f"{provider}://bucket/log")
    path = word.replace(" ", "%20")
    text = f"Generic error: Error performing GET https://h/{path}/x in 1ms - HTTP error: error sending request"
    assert type(translated(GenericError(text), settings, "x", READ)) is ObjectStoreUnavailableError


def test_a_refused_request_is_not_called_an_unreachable_store():
    error = translated(GenericError(answer("400 Bad Request", "EntityTooLarge")), SETTINGS, "x", WRITE)
    assert "the store refuses the request" in str(error) and "AWS_ENDPOINT_URL" in str(error)


FORBIDDEN = answer("403 Forbidden", "AccessDenied")
UNREACHABLE = "Generic S3 error: Error performing GET http://h/bucket/log/x in 1ms - HTTP error: error sending request"


@pytest.mark.parametrize(
    ("text", "operation", "first", "setting"),
    [
        (answer("404 Not Found", "NoSuchBucket"), READ, "the bucket 'bucket' does not exist", "object.endpoint"),
        (FORBIDDEN, READ, "commits/1 cannot be read with these credentials", "s3:GetObject for this"),
        (FORBIDDEN, WRITE, "commits/1 cannot be written with these credentials", "s3:PutObject for this"),
        (FORBIDDEN, StoreOperation.LIST, "commits/1 cannot be listed with these credentials", "s3:ListBucket for this"),
        (FORBIDDEN, StoreOperation.DELETE, "commits/1 cannot be deleted with these", "s3:DeleteObject for this"),
        (answer("301 Moved", "PermanentRedirect"), READ, "the bucket is not in the default region", "object.region"),
        (answer("403 Forbidden", "InvalidAccessKeyId"), READ, "cannot be read with these", "object.secret.access.key"),
        (UNREACHABLE, READ, "commits/1 cannot be reached", "object.endpoint"),
        (UNREACHABLE, WRITE, "commits/1: the write may or may not have happened", "object.endpoint"),
        ("Generic S3 error: builder error for url (http://h)", READ, "the address has no TLS", "object.allow.http"),
        ("Generic S3 error: Unable parse source url", READ, "no address can be made", "object.endpoint"),
        (answer("503 Slow Down", "SlowDown"), READ, "the store throttles requests", "object.retry.timeout.ms"),
    ],
)
def test_a_message_says_what_and_where_then_the_setting_and_the_librarys_words_last(text, operation, first, setting):
    kind = PermissionDeniedError if "403" in text else GenericError
    message = str(translated(kind(text), SETTINGS, "commits/1", operation))
    ours, _, library = message.partition("; the client library says: ")
    assert message.startswith("s3://bucket/log")
    assert ours.index(first) < ours.index(setting)
    assert ours.endswith(f"The {operation.value} of key 'log/commits/1' in bucket 'bucket' failed")
    assert "Generic S3 error" not in ours
    assert library.startswith("Generic S3 error")


@pytest.mark.parametrize("provider", ["s3", "gs", "az"])
@pytest.mark.parametrize("operation", StoreOperation)
def test_a_missing_permission_of_every_operation_is_named(provider, operation):
    settings = parse_store_settings(f"{provider}://bucket/log")
    error = translated(PermissionDeniedError(FORBIDDEN), settings, "x", operation)
    assert f"x cannot be {operation.participle} with these credentials. They need " in str(error)
    assert f"{operation.value} of key 'log/x' in bucket 'bucket'" in str(error)
