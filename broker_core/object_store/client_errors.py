"""What the client library says went wrong, as one of the house's errors, in words without secrets.

The library's texts hold the whole answer of the server, which may repeat an access key or a signature, and URLs with
signed queries. Only the request, the status, and the answer's code and message are kept.
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
from broker_core.object_store.store_settings import StoreSettings

_CODE: Final = re.compile(r"<Code>(?P<code>[^<]{1,100})</Code>")
_MESSAGE: Final = re.compile(r"<Message>(?P<message>[^<]{1,300})</Message>")
_STATUS: Final = re.compile(r"status code: (?P<status>[0-9]{3})(?P<reason>[A-Za-z ]*)")
_QUERY: Final = re.compile(r"\?[^ \"'<>)]*")
_KEY: Final = re.compile(r"A[KS]IA[A-Z0-9]{8,}")

_MISSING_PLACE: Final = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_CREDENTIALS: Final = (
    *("ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "AuthenticationFailed"),
    *("InvalidToken", "TokenRefreshRequired", "RequestExpired", "169.254.169.254", "metadata.google.internal"),
    *("Error getting credentials", "AuthorizationPermissionMismatch", "AuthorizationHeaderMalformed"),
)
_WRONG_REGION: Final = ("PermanentRedirect", "AuthorizationHeaderMalformed", "301 Moved", "IllegalLocationConstraint")


def translated(error: BaseException, settings: StoreSettings, path: str, *, is_write: bool) -> ObjectStoreError:
    """The house's error for one of the library's, of a request for the object at `path`."""
    text = str(error)
    status = _STATUS.search(text)
    code = int(status["status"]) if status else None
    what = _words(text, settings)
    place = f"{settings.url}/{path}"

    def made(kind: type[ObjectStoreError], words: str) -> ObjectStoreError:
        return kind(words, url=settings.url, object=path)

    if any(word in text for word in _MISSING_PLACE):
        return made(
            ObjectStoreUnsuitableError,
            f"{settings.url}: the bucket {settings.bucket!r} does not exist (or not at this endpoint): {what}."
            " Make it first, or correct the URL or object.endpoint.",
        )
    if any(word in text for word in _WRONG_REGION) or code == 301:
        return made(
            ObjectStoreUnsuitableError,
            f"{settings.url}: the bucket is in another region than the request says: {what}. Set object.region.",
        )
    name = type(error).__name__
    if isinstance(error, FileNotFoundError):
        return made(ObjectNotFoundError, f"{place} does not exist.")
    if name in ("AlreadyExistsError", "PreconditionError", "NotModifiedError") or code in (409, 412):
        return made(ObjectPreconditionError, f"{place} exists already or was changed: {what}")
    if name in ("PermissionDeniedError", "UnauthenticatedError") or any(word in text for word in _CREDENTIALS):
        verb = "written" if is_write else "read"
        return made(
            ObjectPermissionError,
            f"{place} may not be {verb} with these credentials: {what}. They come from the options object.* or, without"
            " them, from the environment, the profile or the role of the machine.",
        )
    if code in (429, 503) or "SlowDown" in text or "ServerBusy" in text:
        return made(ObjectThrottledError, f"{place}: the store asks for fewer requests: {what}")
    if name in ("NotSupportedError", "NotImplementedError") or code == 501:
        return made(
            ObjectStoreUnsuitableError,
            f"{settings.url}: the store cannot do what a log needs: {what}. It needs conditional writes (If-None-Match,"
            " If-Match).",
        )
    if is_write and (code is None or code >= 500):
        return made(
            ObjectOutcomeUnknownError,
            f"{place}: the write may or may not have happened: {what} (object.timeout.ms, object.max.retries)",
        )
    return made(ObjectStoreUnavailableError, f"{place} cannot be reached: {what} (object.endpoint, object.timeout.ms)")


def _words(text: str, settings: StoreSettings) -> str:
    head = text.split("\n\nDebug source", 1)[0]
    head, _, body = head.partition(": <?xml")
    first_line = head.split("\n", 1)[0][:500]
    found = [first_line]
    for pattern, group in ((_CODE, "code"), (_MESSAGE, "message")):
        match = pattern.search(body)
        if match:
            found.append(match[group])
    words = _KEY.sub("…", _QUERY.sub("?…", " ".join(found)))
    for secret in settings.secrets:
        words = words.replace(secret, "…")
    return words
