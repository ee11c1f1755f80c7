"""Where a log on object storage is, and how its store is reached: a URL and options, checked before any request.

    s3://bucket/prefix   s3a://…        object.access.key.id, object.secret.access.key, object.session.token,
                                        object.region, object.path.style
    gs://bucket/prefix                  object.service.account.secret.key, object.service.account.path
    az://container/prefix               object.account.name, object.account.access.key, object.sas.token
    abfss://container@account.…/prefix  the same; the account stands in the URL
    objects:///mnt/shared/log           a folder that all machines share

For all: object.endpoint, object.allow.http, object.timeout.ms, object.connect.timeout.ms, object.max.retries,
object.retry.timeout.ms. What is not given the client library takes from the environment or the role of
the machine; it does not read profiles in ~/.aws.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from broker_core.model.exceptions import InvalidConfigError

FOLDER_SCHEME: Final = "objects"
SCHEMES: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss", FOLDER_SCHEME)

_COMMON: Final = {
    "object.endpoint": "endpoint",
    "object.allow.http": "",
    "object.timeout.ms": "",
    "object.connect.timeout.ms": "",
    "object.max.retries": "",
    "object.retry.timeout.ms": "",
}
_PROVIDER_OPTIONS: Final[dict[str, dict[str, str]]] = {
    "s3": {
        "object.region": "region",
        "object.access.key.id": "access_key_id",
        "object.secret.access.key": "secret_access_key",
        "object.session.token": "session_token",
        "object.path.style": "",
    },
    "gs": {
        "object.endpoint": "base_url",
        "object.service.account.secret.key": "service_account_key",
        "object.service.account.path": "service_account_path",
    },
    "az": {
        "object.account.name": "account_name",
        "object.account.access.key": "account_key",
        "object.sas.token": "sas_key",
    },
    FOLDER_SCHEME: {},
}
_ENVIRONMENT_PREFIXES: Final = {"s3": ("AWS",), "gs": ("GOOGLE",), "az": ("AZURE",), FOLDER_SCHEME: ()}
_TRUE_WORDS: Final = ("1", "true", "on", "yes", "y")
"""As the client library reads them."""
_HALVES: Final[dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]]] = {
    "s3": (
        ("object.access.key.id", "object.secret.access.key", ("AWS_SECRET_ACCESS_KEY",)),
        ("object.secret.access.key", "object.access.key.id", ("AWS_ACCESS_KEY_ID",)),
        ("object.session.token", "object.access.key.id", ("AWS_ACCESS_KEY_ID",)),
    ),
    "az": (
        ("object.account.access.key", "object.account.name", ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME")),
        ("object.sas.token", "object.account.name", ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME")),
    ),
}
"""By provider: an option, the one that it needs, and the variables that may stand for that."""
SECRET_OPTIONS: Final = frozenset(
    {
        *("object.access.key.id", "object.secret.access.key", "object.session.token"),
        *("object.service.account.secret.key", "object.account.access.key", "object.sas.token"),
    }
)
"""Spark redacts an option in plans, logs and events if its name has secret, password, token or access.key in it."""
_RENAMED: Final = {
    "object.service.account.key": "object.service.account.secret.key",
    "object.account.key": "object.account.access.key",
}
_ENDPOINT: Final = re.compile(r"https?://[^\s/@?#]+(/[^\s?#]*)?", re.IGNORECASE)
"""Without user, password and query: it is not a secret and may be shown."""
_DEFAULT_TIMEOUT_MS: Final = 30_000
_DEFAULT_CONNECT_TIMEOUT_MS: Final = 5_000
_DEFAULT_MAX_RETRIES: Final = 5
_DEFAULT_RETRY_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """A checked address. Its repr, and so every message that holds it, shows no secret.

    `provider` is s3, gs, az or objects; `config` is what the client library calls its configuration.
    """

    url: str
    provider: str
    bucket: str
    prefix: str
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_http: bool | None = None
    path_style: bool | None = None
    timeout_ms: int = _DEFAULT_TIMEOUT_MS
    connect_timeout_ms: int = _DEFAULT_CONNECT_TIMEOUT_MS
    max_retries: int = _DEFAULT_MAX_RETRIES
    retry_timeout_ms: int = _DEFAULT_RETRY_TIMEOUT_MS

    @property
    def given_options(self) -> tuple[str, ...]:
        """The names of those that are the client library's. An account in the URL counts as given."""
        names = _COMMON | _PROVIDER_OPTIONS[self.provider]
        return tuple(name for name, key in names.items() if key in self.config)

    def checked(self, environment: Mapping[str, str]) -> StoreSettings:
        """The same once the environment was asked, as the client library asks it, for what is not given. Raises
        InvalidConfigError for an unprotected endpoint that is not allowed, and for half of a credential."""
        allow_http = self.allow_http
        if allow_http is None:
            variables = [f"{prefix}_ALLOW_HTTP" for prefix in _ENVIRONMENT_PREFIXES[self.provider]]
            allow_http = any(environment.get(name, "").lower() in _TRUE_WORDS for name in variables)
        if self.config.get("endpoint", "").lower().startswith("http://") and not allow_http:
            raise InvalidConfigError(
                "The option object.endpoint is an http:// address, which does not encrypt keys and data; set"
                " object.allow.http to true to allow it",
                setting="object.endpoint",
            )
        names = _PROVIDER_OPTIONS[self.provider]
        for option, needed, others in _HALVES.get(self.provider, ()):
            is_half = names[option] in self.config and names[needed] not in self.config
            if is_half and not any(environment.get(other) for other in others):
                raise InvalidConfigError(
                    f"The option {option} is given without {needed}, and {others[0]} is not in the environment",
                    setting=needed,
                )
        return replace(self, allow_http=allow_http)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not appear in any message."""
        names = {**_PROVIDER_OPTIONS[self.provider]}
        return tuple(self.config[names[name]] for name in SECRET_OPTIONS if names.get(name) in self.config)


def is_object_url(text: str) -> bool:
    """Whether a path is the URL of a log on object storage."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def parse_store_settings(url: str, options: Mapping[str, str] | None = None) -> StoreSettings:
    """`options`: all whose names begin with `object.`. Raises InvalidConfigError that names the option or the URL."""
    parts = _split(url)
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES:
        raise InvalidConfigError(
            f"{_redacted(url)} is not the URL of a log on object storage; use s3://, s3a://, gs://, az://,"
            " abfss:// or objects:///"
        )
    if parts.query or parts.fragment or parts.password is not None:
        raise InvalidConfigError(
            f"{_redacted(url)} may only hold a bucket and a path; set credentials and settings with options (object.*)"
        )
    provider = {"s3a": "s3", "abfs": "az", "abfss": "az"}.get(scheme, scheme)
    given = {name: value for name, value in (options or {}).items() if value is not None}
    known = _COMMON | _PROVIDER_OPTIONS[provider]
    for name in given:
        if name not in known:
            raise _unknown_option(name, provider, known)
        if name != "object.service.account.secret.key" and _has_control_character(given[name]):
            raise InvalidConfigError(
                f"Invalid value for option {name}: it contains a line end or another control character", setting=name
            )
    config = {known[name]: value for name, value in given.items() if known[name]}
    bucket, prefix = _place(url, parts.netloc, parts.path, provider, config)
    if not _ENDPOINT.fullmatch(given.get("object.endpoint", "https://default")):
        raise InvalidConfigError(
            "Invalid value for option object.endpoint: it must be an address such as https://host:9000",
            setting="object.endpoint",
        )
    return StoreSettings(
        url=url.rstrip("/"),
        provider=provider,
        bucket=bucket,
        prefix=prefix,
        config=config,
        allow_http=_flag(given, "object.allow.http"),
        path_style=_flag(given, "object.path.style"),
        timeout_ms=_number(given, "object.timeout.ms", _DEFAULT_TIMEOUT_MS, 1),
        connect_timeout_ms=_number(given, "object.connect.timeout.ms", _DEFAULT_CONNECT_TIMEOUT_MS, 1),
        max_retries=_number(given, "object.max.retries", _DEFAULT_MAX_RETRIES, 0),
        retry_timeout_ms=_number(given, "object.retry.timeout.ms", _DEFAULT_RETRY_TIMEOUT_MS, 1),
    )


def _split(url: str) -> SplitResult:
    # urlsplit would drop line ends and tabs without a word.
    if _has_control_character(unquote(url)):
        raise InvalidConfigError("The URL of the log contains a line end or another control character")
    try:
        return urlsplit(url)
    except ValueError as error:
        raise InvalidConfigError("The URL of the log has a [ or ] in the name of its bucket") from error


def _has_control_character(text: str) -> bool:
    return any(character < " " or character == "\x7f" for character in text)


def _place(url: str, netloc: str, path: str, provider: str, config: dict[str, str]) -> tuple[str, str]:
    """(bucket, prefix without slashes at its ends)."""
    if provider == FOLDER_SCHEME:
        if netloc or not path.strip("/"):
            raise InvalidConfigError(f"{url} has no folder; write objects:///an/absolute/path")
        return "", unquote(path).rstrip("/")
    container, at, host = netloc.partition("@")
    if at:
        if provider != "az":
            raise InvalidConfigError(f"{_redacted(url)} may only hold a bucket and a path")
        config.setdefault("account_name", host.partition(".")[0])
    if not container:
        raise InvalidConfigError(f"{url} has no bucket")
    prefix = "/".join(part for part in path.split("/") if part)
    if not prefix:
        raise InvalidConfigError(
            f"{url} has no path in the bucket; a log needs its own prefix, such as {url.rstrip('/')}/log"
        )
    return container, prefix


def _unknown_option(name: str, provider: str, known: Mapping[str, str]) -> InvalidConfigError:
    if name in _RENAMED:
        return InvalidConfigError(
            f"Unknown option {name}. Use {_RENAMED[name]}, whose value Spark redacts in plans and logs", setting=name
        )
    owner = next((other for other, options in _PROVIDER_OPTIONS.items() if name in options), None)
    if owner is not None:
        return InvalidConfigError(f"The option {name} is for {owner}://, not for {provider}://", setting=name)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    advice = (
        f". Did you mean {close[0]}?" if close else f"; the options of {provider}:// are {', '.join(sorted(known))}"
    )
    return InvalidConfigError(f"Unknown option {name}{advice}", setting=name)


def _flag(options: Mapping[str, str], name: str) -> bool | None:
    text = options.get(name)
    if text is None:
        return None
    if text.strip().lower() not in ("true", "false"):
        raise InvalidConfigError(f"Invalid value for option {name}: it must be true or false", setting=name)
    return text.strip().lower() == "true"


def _number(options: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number < 2**31:
        raise InvalidConfigError(
            f"Invalid value for option {name}: it must be a whole number from {least} to {2**31 - 1}", setting=name
        )
    return number


def _redacted(url: str) -> str:
    """Without what may be a password or a token."""
    parts = urlsplit(url)
    has_container = parts.scheme.lower() in ("abfs", "abfss") and parts.password is None
    host = parts.netloc if has_container else parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
