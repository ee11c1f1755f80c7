"""Translates errors of the client library into the project's exceptions, with messages without secrets.

A message says first what is wrong and where, then which setting changes it, and at its end what the library says.
The library's messages include the whole answer of the server, which may repeat an access key or a signature, and URLs
with signed queries. Only the request, the status, and the answer's code and message are kept.
"""

from __future__ import annotations

import enum
import re
from typing import Final

from broker_core.model.exceptions import (
    ObjectNotFoundError,
    ObjectOutcomeUnknownError,
    ObjectPermissionError,
    ObjectPreconditionError,
    ObjectStoreError,
    ObjectStoreUnavailableError,
    ObjectStoreUnsuitableError,
    ObjectThrottledError,
)
from broker_core.model.store_settings import StoreSettings


class StoreOperation(enum.Enum):
    """What was asked of the store."""

    READ = "read"
    WRITE = "write"
    LIST = "list"
    DELETE = "delete"

    @property
    def is_write(self) -> bool:
        return self in (StoreOperation.WRITE, StoreOperation.DELETE)

    @property
    def participle(self) -> str:
        return _PARTICIPLES[self]


_PARTICIPLES: Final = {
    StoreOperation.READ: "read",
    StoreOperation.WRITE: "written",
    StoreOperation.LIST: "listed",
    StoreOperation.DELETE: "deleted",
}
_CODE: Final = re.compile(r"<Code>(?P<code>[^<]{1,100})</Code>")
_MESSAGE: Final = re.compile(r"<Message>(?P<message>[^<]{1,300})</Message>")
_STATUS: Final = re.compile(r"status code: (?P<status>[0-9]{3})[A-Za-z -]*:? ?")
_ADDRESS: Final = re.compile(r"https?://[^ ]+")
_QUERY: Final = re.compile(r"\?[^ \"'<>)]*")
_KEY: Final = re.compile(r"A[KS]IA[A-Z0-9]{8,}")

_NO_OBJECT: Final = ("NoSuchKey", "BlobNotFound", "")
"""Codes of a 404 that is about the object. Some servers return 404 for a wrong key, and a proxy may for anything."""
_NO_UPLOAD: Final = "NoSuchUpload"
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound")
_WRONG_REGION: Final = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_NO_ACCESS: Final = frozenset(
    {
        *("ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "AuthenticationFailed"),
        *("InvalidToken", "TokenRefreshRequired", "RequestExpired", "AuthorizationPermissionMismatch"),
        *("RequestTimeTooSkewed", "AuthorizationFailure", "InvalidSecurity", "AccountProblem", "XAdminUserNotFound"),
    }
)
_EXPIRED: Final = frozenset({"ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException"})
_MACHINE_ROLE: Final = re.compile(
    r"[A-Z] http://(?:169\.254\.(?:169\.254|170\.2|170\.23)|metadata\.google\.internal|metadata)[:/]"
)
"""A request for the role of the machine. The library sends it if it has no credentials."""
_NO_REGION: Final = "redirect without LOCATION"
_CREDENTIALS: Final = {
    "s3": (
        "object.access.key.id and object.secret.access.key, or the variables AWS_ACCESS_KEY_ID and"
        " AWS_SECRET_ACCESS_KEY of the driver and the executors, or give their machines a role"
        " (profiles in ~/.aws are not read)"
    ),
    "gs": (
        "object.service.account.path or object.service.account.secret.key, or the variable"
        " GOOGLE_APPLICATION_CREDENTIALS of the driver and the executors, or give their machines a service account"
    ),
    "az": (
        "object.account.access.key or object.sas.token, or the variable AZURE_STORAGE_ACCOUNT_KEY of the driver and"
        " the executors, or give their machines a managed identity"
    ),
}
_ENDPOINT_VARIABLES: Final = {"s3": "AWS_ENDPOINT_URL", "gs": "GOOGLE_BASE_URL", "az": "AZURE_STORAGE_ENDPOINT"}
_NOT_CREDENTIALS: Final = frozenset({"object.endpoint", "object.region", "object.account.name"})
_PERMISSIONS: Final = {
    "s3": "s3:GetObject, s3:PutObject, s3:DeleteObject on the log's prefix, and s3:ListBucket on the bucket",
    "gs": "storage.objects.get, .create, .delete and .list on the bucket",
    "az": "the role Storage Blob Data Contributor on the container, or a token with read, write, delete and list",
}
_PERMISSION: Final = {
    "s3": {
        StoreOperation.READ: "s3:GetObject",
        StoreOperation.WRITE: "s3:PutObject",
        StoreOperation.LIST: "s3:ListBucket",
        StoreOperation.DELETE: "s3:DeleteObject",
    },
    "gs": {
        StoreOperation.READ: "storage.objects.get",
        StoreOperation.WRITE: "storage.objects.create (and storage.objects.delete to replace an object)",
        StoreOperation.LIST: "storage.objects.list",
        StoreOperation.DELETE: "storage.objects.delete",
    },
    "az": {
        StoreOperation.READ: "the permission read",
        StoreOperation.WRITE: "the permission write",
        StoreOperation.LIST: "the permission list",
        StoreOperation.DELETE: "the permission delete",
    },
}
_REASONS: Final = {
    "InvalidAccessKeyId": "The store does not know this key.",
    "XAdminUserNotFound": "The store does not know this key.",
    "SignatureDoesNotMatch": "The secret key does not belong to the id of the key.",
    "RequestTimeTooSkewed": "The clock of this machine is wrong.",
    "RequestExpired": "The clock of this machine is wrong.",
    "InvalidToken": "The session token does not belong to the key.",
}
"""What is wrong with credentials, by the code of the answer. With any other code a permission is missing."""
_UNREADABLE_CREDENTIALS: Final = (
    ("s3", "Missing AccessKeyId", "a secret access key is set without the id of its key"),
    ("s3", "Missing SecretAccessKey", "the id of an access key is set without its secret"),
    ("s3", "token file", "the file of the role's token cannot be read"),
    ("s3", "InvalidHeaderValue", "the key, the token or the region has a line end or another control character"),
    ("gs", "One of service account", "a service account is given twice"),
    ("gs", "ervice account", "the key of the service account cannot be read"),
    ("gs", "pem file", "the private key of the service account cannot be read"),
    ("az", "Invalid Access Key", "the account's key is not base64"),
    ("az", "SAS", "the SAS token is not the query of a URL, as in sv=…&sig=…"),
)
"""Provider, words of the library's message, and what is wrong."""
_NOT_SENT: Final = ("builder error", "InvalidUri", "InvalidPort", "Unable parse source url", "Unable to parse")
"""Of a message about an address that cannot be used: nothing was sent."""
_BUSY: Final = ("SlowDown", "ServerBusy", "ServiceUnavailable", "RequestLimitExceeded", "Throttling")


def translated(error: BaseException, settings: StoreSettings, path: str, operation: StoreOperation) -> ObjectStoreError:
    """The project's exception for one of the library's, for a request for the object at `path`."""
    text = str(error).split("\n\nDebug source", 1)[0]
    found = _STATUS.search(text)
    status = int(found["status"]) if found else None
    body = text[found.end() :] if found else ""
    named = _CODE.search(body)
    code = named["code"] if named else ""
    what = _words(text, body, settings)
    found_by_settings = _judged_settings(error, text, settings) if status is None else None
    if _MACHINE_ROLE.search(text):
        kind, words = _no_credentials(settings)
    elif found_by_settings is not None:
        kind, words = found_by_settings
    else:
        kind, words = _judged(error, text, status, code, body, settings, operation)
    message = words.format(url=settings.url, place=f"{settings.url}/{path}", bucket=settings.bucket)
    said = "" if kind is ObjectNotFoundError else f" {_said(what, operation, settings, path)}"
    return kind(message + said, url=settings.url, object=path)


def _said(what: str, operation: StoreOperation, settings: StoreSettings, path: str) -> str:
    key = "/".join(part for part in (settings.prefix, path) if part)
    return (
        f"The {operation.value} of key {key!r} in bucket {settings.bucket!r} failed; the client library says: {what}."
    )


def cannot_open(error: BaseException, settings: StoreSettings) -> ObjectStoreError:
    """The project's exception if the library refuses the settings before any request."""
    text = str(error).split("\n\nDebug source", 1)[0]
    kind, words = _judged_settings(error, text, settings) or (
        ObjectStoreUnsuitableError,
        f"{{url}} cannot be opened. Check the options object.* and the variables {_prefix(settings)}_* of the"
        " environment.",
    )
    message = words.format(url=settings.url, bucket=settings.bucket)
    return kind(f"{message} The client library says: {_words(text, '', settings)}.", url=settings.url)


def _judged_settings(
    error: BaseException, text: str, settings: StoreSettings
) -> tuple[type[ObjectStoreError], str] | None:
    """For what the library finds out without an answer of the store."""
    # The log's path is the user's, and may look like anything.
    words = _ADDRESS.sub("", text)
    for provider, said, wrong in _UNREADABLE_CREDENTIALS:
        if provider == settings.provider and said in words:
            return ObjectPermissionError, f"{{url}}: {wrong}. Set {_CREDENTIALS[provider]}."
    if "Account must be specified" in text:
        return ObjectStoreUnsuitableError, (
            "{url}: the storage account is missing. Set object.account.name, or the variable"
            " AZURE_STORAGE_ACCOUNT_NAME of the driver and the executors, or write"
            " abfss://container@account.dfs.core.windows.net/path."
        )
    if "builder error" in words and "http://" in text:
        return ObjectStoreUnsuitableError, (
            "{url}: the address has no TLS. It needs object.allow.http=true (or the variable"
            f" {_prefix(settings)}_ALLOW_HTTP=true), or an https:// address in object.endpoint (or"
            f" {_ENDPOINT_VARIABLES[settings.provider]})."
        )
    if any(said in words for said in _NOT_SENT) or type(error).__name__ == "PanicException":
        return ObjectStoreUnsuitableError, (
            "{url}: no address can be made of the settings. Correct object.endpoint (or the variable"
            f" {_ENDPOINT_VARIABLES[settings.provider]}), or the name of the bucket in the URL"
            f"{', or object.account.name' if settings.provider == 'az' else ''}."
        )
    return None


def _prefix(settings: StoreSettings) -> str:
    """Of the provider's variables in the environment."""
    return _ENDPOINT_VARIABLES[settings.provider].partition("_")[0]


def _judged(
    error: BaseException,
    text: str,
    status: int | None,
    code: str,
    body: str,
    settings: StoreSettings,
    operation: StoreOperation,
) -> tuple[type[ObjectStoreError], str]:
    """The exception class, and its message with placeholders."""
    name, is_write = type(error).__name__, operation.is_write
    if code in _NO_BUCKET:
        return ObjectStoreUnsuitableError, (
            "{url}: the bucket '{bucket}' does not exist (or not at this endpoint). Create it, or correct"
            " the URL or object.endpoint."
        )
    if code in _WRONG_REGION or status == 301 or _NO_REGION in text:
        said = "the region of object.region" if "region" in settings.config else "the default region"
        return ObjectStoreUnsuitableError, (
            f"{{url}}: the bucket is not in {said}. Set object.region to the bucket's region"
            " (or the variable AWS_REGION of the driver and the executors; without either it is us-east-1)."
        )
    if code in _EXPIRED:
        fresh = "object.session.token and " if settings.provider == "s3" else ""
        return ObjectPermissionError, (
            f"{{place}} may not be {operation.participle}: the credentials have expired. Set"
            f" fresh ones by {fresh}{_CREDENTIALS[settings.provider]}. Nothing that was committed is lost."
        )
    if (
        name in ("PermissionDeniedError", "UnauthenticatedError")
        or code in _NO_ACCESS
        or (status is None and "credential" in text)
    ):
        reason = _REASONS.get(code) or _missing_permission(settings, operation)
        return ObjectPermissionError, (
            f"{{place}} cannot be {operation.participle} with these credentials. {reason} {_origin(settings)}"
        )
    if code == _NO_UPLOAD:
        return ObjectOutcomeUnknownError, (
            "{place}: the store does not know this upload any more: it was completed and the answers to that were lost,"
            " or a rule of the bucket has removed it. Nothing refers to the object: repeat the write, which"
            " uploads another one. If this happens again, raise object.timeout.ms or object.retry.timeout.ms, and let"
            " the bucket's rule keep uploads for longer than the longest task."
        )
    if isinstance(error, FileNotFoundError) and code in _NO_OBJECT and (code or not body.strip()):
        return ObjectNotFoundError, "{place} does not exist."
    if name in ("AlreadyExistsError", "PreconditionError", "NotModifiedError") or status in (409, 412):
        return ObjectPreconditionError, "{place} exists already or was changed."
    if status in (429, 503) or code in _BUSY:
        return (
            ObjectThrottledError,
            "{place}: the store throttles requests; the next attempt may succeed (object.retry.timeout.ms).",
        )
    if name in ("NotSupportedError", "NotImplementedError") or status == 501:
        return ObjectStoreUnsuitableError, (
            "{url}: the store does not support an operation that a log needs. A log needs conditional"
            " writes (If-Match)."
        )
    if is_write and (status is None or status >= 500):
        return ObjectOutcomeUnknownError, (
            "{place}: the write may or may not have happened (object.timeout.ms, object.max.retries)."
            f" {_advice(settings)}"
        )
    if status is not None and 400 <= status < 500 and status != 404:
        return ObjectStoreUnavailableError, f"{{place}}: the store refuses the request. {_advice(settings)}"
    return ObjectStoreUnavailableError, f"{{place}} cannot be reached. {_advice(settings)}"


def _missing_permission(settings: StoreSettings, operation: StoreOperation) -> str:
    one = _PERMISSION[settings.provider][operation]
    needed = f"They need {one} for this request; a log needs {_PERMISSIONS[settings.provider]}."
    if settings.provider == "s3" and operation is StoreOperation.READ:
        # S3 hides whether an object exists from those who may not list.
        return f"{needed} Without s3:ListBucket a missing object is answered in this way too."
    return needed


def _advice(settings: StoreSettings) -> str:
    if not {"endpoint", "base_url"} & set(settings.config):
        return (
            "object.endpoint is not set, so the address is that of the variable"
            f" {_ENDPOINT_VARIABLES[settings.provider]}, or the store's public one: check that this"
            " machine can reach it (see also object.timeout.ms)."
        )
    return (
        "Check that a server is running at object.endpoint, and that this machine can reach it (see also"
        " object.timeout.ms)."
    )


def _origin(settings: StoreSettings) -> str:
    """Where refused credentials are from."""
    given = [name for name in settings.given_options if name not in _NOT_CREDENTIALS]
    if given:
        return f"They come from the options object.*: {' and '.join(given)}."
    return (
        "They come from the environment or the role of the machine, as no options object.* set them. Set"
        f" {_CREDENTIALS[settings.provider]}."
    )


def _no_credentials(settings: StoreSettings) -> tuple[type[ObjectStoreError], str]:
    return ObjectPermissionError, (
        "{url}: no credentials were found, and the machine has no role that provides them. Set"
        f" {_CREDENTIALS[settings.provider]}."
    )


def _words(text: str, body: str, settings: StoreSettings) -> str:
    """The request and its status, and the code and message of the answer."""
    parts = [text.removesuffix(body).split("\n", 1)[0].rstrip(":. ")[:500]]
    for pattern, group in ((_CODE, "code"), (_MESSAGE, "message")):
        match = pattern.search(body)
        if match:
            # Azure adds lines with its own ids.
            parts.append(match[group].split("\n", 1)[0].rstrip(". "))
    words = _KEY.sub("…", _QUERY.sub("?…", " ".join(parts)))
    for secret in settings.secrets:
        words = words.replace(secret, "…")
    return words
