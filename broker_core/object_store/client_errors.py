"""Translates errors of the client library into the project's exceptions, with messages without secrets.

The library's messages include the whole answer of the server, which may repeat an access key or a signature, and URLs
with signed queries. Only the request, the status, and the answer's code and message are kept.
"""

from __future__ import annotations

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

_CODE: Final = re.compile(r"<Code>(?P<code>[^<]{1,100})</Code>")
_MESSAGE: Final = re.compile(r"<Message>(?P<message>[^<]{1,300})</Message>")
_STATUS: Final = re.compile(r"status code: (?P<status>[0-9]{3})[A-Za-z -]*:? ?")
_QUERY: Final = re.compile(r"\?[^ \"'<>)]*")
_KEY: Final = re.compile(r"A[KS]IA[A-Z0-9]{8,}")

_NO_OBJECT: Final = ("NoSuchKey", "BlobNotFound", "")
"""Codes of a 404 that is about the object. Some servers return 404 for a wrong key, and a proxy may for anything."""
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
_BUSY: Final = ("SlowDown", "ServerBusy", "ServiceUnavailable", "RequestLimitExceeded", "Throttling")


def translated(error: BaseException, settings: StoreSettings, path: str, *, is_write: bool) -> ObjectStoreError:
    """The project's exception for one of the library's, for a request for the object at `path`."""
    text = str(error).split("\n\nDebug source", 1)[0]
    found = _STATUS.search(text)
    status = int(found["status"]) if found else None
    body = text[found.end() :] if found else ""
    named = _CODE.search(body)
    code = named["code"] if named else ""
    what = _words(text, body, settings)
    if _MACHINE_ROLE.search(text):
        kind, words = _no_credentials(settings)
    else:
        kind, words = _judged(error, text, status, code, body, settings, is_write=is_write)
    message = words.format(url=settings.url, place=f"{settings.url}/{path}", bucket=settings.bucket, what=what)
    return kind(message, url=settings.url, object=path)


def _judged(
    error: BaseException,
    text: str,
    status: int | None,
    code: str,
    body: str,
    settings: StoreSettings,
    *,
    is_write: bool,
) -> tuple[type[ObjectStoreError], str]:
    """The exception class, and its message with placeholders."""
    name = type(error).__name__
    if code in _NO_BUCKET:
        return ObjectStoreUnsuitableError, (
            "{url}: the bucket '{bucket}' does not exist (or not at this endpoint): {what}. Create it, or correct"
            " the URL or object.endpoint."
        )
    if code in _WRONG_REGION or status == 301 or _NO_REGION in text:
        said = "the region of object.region" if "region" in settings.config else "the default region"
        return ObjectStoreUnsuitableError, (
            f"{{url}}: the bucket is not in {said}: {{what}}. Set object.region to the bucket's region"
            " (or the variable AWS_REGION of the driver and the executors; without either it is us-east-1)."
        )
    if code in _EXPIRED:
        fresh = "object.session.token and " if settings.provider == "s3" else ""
        return ObjectPermissionError, (
            f"{{place}} may not be {'written' if is_write else 'read'}: the credentials have expired: {{what}}. Set"
            f" fresh ones by {fresh}{_CREDENTIALS[settings.provider]}. Nothing that was committed is lost."
        )
    if (
        name in ("PermissionDeniedError", "UnauthenticatedError")
        or code in _NO_ACCESS
        or (status is None and "credential" in text)
    ):
        verb = "written" if is_write else "read"
        return ObjectPermissionError, (
            f"{{place}} cannot be {verb} with these credentials: {{what}}. They come from the options object.* or,"
            " without them, from the environment or the role of the machine."
        )
    if isinstance(error, FileNotFoundError) and code in _NO_OBJECT and (code or not body.strip()):
        return ObjectNotFoundError, "{place} does not exist."
    if name in ("AlreadyExistsError", "PreconditionError", "NotModifiedError") or status in (409, 412):
        return ObjectPreconditionError, "{place} exists already or was changed: {what}"
    if status in (429, 503) or code in _BUSY:
        return ObjectThrottledError, "{place}: the store throttles requests: {what}"
    if name in ("NotSupportedError", "NotImplementedError") or status == 501:
        return ObjectStoreUnsuitableError, (
            "{url}: the store does not support an operation that a log needs: {what}. A log needs conditional"
            " writes (If-Match)."
        )
    if is_write and (status is None or status >= 500):
        return ObjectOutcomeUnknownError, (
            "{place}: the write may or may not have happened: {what} (object.timeout.ms, object.max.retries)"
        )
    return ObjectStoreUnavailableError, f"{{place}} cannot be reached: {{what}}. {_advice(text, settings)}"


def _advice(text: str, settings: StoreSettings) -> str:
    # The library's message for an http:// address that is not allowed.
    if "builder error" in text:
        return "An endpoint without TLS needs object.allow.http=true; else correct object.endpoint."
    if not {"endpoint", "base_url"} & set(settings.config):
        return "object.endpoint is not set, so the store's public address was asked (see also object.timeout.ms)."
    return "Check that a server is running at object.endpoint (see also object.timeout.ms)."


def _no_credentials(settings: StoreSettings) -> tuple[type[ObjectStoreError], str]:
    return ObjectPermissionError, (
        "{url}: no credentials were found, and the machine has no role that provides them: {what}. Set"
        f" {_CREDENTIALS[settings.provider]}."
    )


def _words(text: str, body: str, settings: StoreSettings) -> str:
    """The request and its status, and the code and message of the answer."""
    parts = [text.removesuffix(body).split("\n", 1)[0].rstrip(": ")[:500]]
    for pattern, group in ((_CODE, "code"), (_MESSAGE, "message")):
        match = pattern.search(body)
        if match:
            # Azure adds lines with its own ids.
            parts.append(match[group].split("\n", 1)[0].rstrip(". "))
    words = _KEY.sub("…", _QUERY.sub("?…", " ".join(parts)))
    for secret in settings.secrets:
        words = words.replace(secret, "…")
    return words
