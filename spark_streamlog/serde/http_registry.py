"""Confluent's schema registry over its REST interface, with only the standard library.

    GET  /schemas/ids/{id}                        the schema of an id
    GET  /subjects/{subject}/versions/latest      its latest version; …/versions/{n} for references
    POST /subjects/{subject}                      the id of an existing schema
    POST /subjects/{subject}/versions             registers a schema

Several URLs are tried in turn, and three times if an error is transient (no connection, 429, 5xx). Then the query
fails, because the error says nothing about a value. Redirects are refused, because the password would be sent along.
The size of an answer is bounded, and so is the time that a silent server may take.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from spark_streamlog.serde.limits import MAX_SCHEMA_BYTES, MAX_SCHEMA_REFERENCES
from spark_streamlog.serde.schema_registry import AVRO, RegisteredSchema, RegistryTarget, shown_url
from spark_streamlog.serde.serde_errors import SchemaRegistryError, UnknownSchemaError

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
ATTEMPT_COUNT: Final = 3
FIRST_PAUSE_SECONDS: Final = 0.2
_TRANSIENT_CODES: Final = frozenset({408, 429, 500, 502, 503, 504})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class HttpRegistry:
    def __init__(self, target: RegistryTarget, *, sleep: Callable[[float], None] = time.sleep) -> None:
        for url in target.urls:
            if urlsplit(url).scheme not in ("http", "https"):
                # urllib would also open files and FTP URLs.
                raise SchemaRegistryError(
                    f"the address of a schema registry must begin with http or https, not {shown_url(url)!r}"
                )
        self._target = target
        self._sleep = sleep
        self._opener = urllib.request.build_opener(_NoRedirect())

    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        return self._with_references(self._ask("GET", f"/schemas/ids/{schema_id}"), schema_id)

    def latest(self, subject: str) -> RegisteredSchema:
        answer = self._ask("GET", f"/subjects/{_quoted(subject)}/versions/latest")
        return self._with_references(answer, _id_of(answer))

    def find_id(self, subject: str, text: str, schema_type: str) -> int:
        return _id_of(self._ask("POST", f"/subjects/{_quoted(subject)}", _posted(text, schema_type)))

    def register(self, subject: str, text: str, schema_type: str) -> int:
        return _id_of(self._ask("POST", f"/subjects/{_quoted(subject)}/versions", _posted(text, schema_type)))

    def _with_references(self, answer: dict[str, Any], schema_id: int) -> RegisteredSchema:
        texts: dict[tuple[str, Any], str] = {}
        self._gather(answer, texts, set())
        return RegisteredSchema(
            schema_id=schema_id,
            schema_type=str(answer.get("schemaType") or AVRO).upper(),
            text=_text_of(answer),
            references=tuple(texts.values()),
        )

    def _gather(self, answer: dict[str, Any], texts: dict[tuple[str, Any], str], begun: set[tuple[str, Any]]) -> None:
        """Collects referenced schemas depth first, so that each text comes after the texts that it refers to."""
        for reference in answer.get("references") or []:
            if not isinstance(reference, dict) or "subject" not in reference or "version" not in reference:
                raise SchemaRegistryError(f"{self._target} answered with an invalid reference: {reference!r}")
            place = (str(reference["subject"]), reference["version"])
            if place in begun:
                continue
            begun.add(place)
            if len(begun) > MAX_SCHEMA_REFERENCES:
                raise SchemaRegistryError(
                    f"{self._target}: the schema refers to more than {MAX_SCHEMA_REFERENCES} others"
                )
            found = self._ask("GET", f"/subjects/{_quoted(place[0])}/versions/{_quoted(str(place[1]))}")
            self._gather(found, texts, begun)
            texts[place] = _text_of(found)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        error = ""
        for attempt in range(ATTEMPT_COUNT):
            if attempt:
                self._sleep(FIRST_PAUSE_SECONDS * 3 ** (attempt - 1))
            for url in self._target.urls:
                try:
                    return self._ask_one(url, method, path, body)
                except (OSError, http.client.HTTPException) as failure:
                    # HTTPError and URLError are OSErrors; permanent errors were raised before.
                    error = f"{shown_url(url)}: {getattr(failure, 'reason', None) or failure!r}"
        raise SchemaRegistryError(
            f"the schema registry does not answer ({method} {path}, {ATTEMPT_COUNT} attempts): {error}"
        )

    def _ask_one(self, url: str, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        address, user_info = _without_user_info(url)
        request = urllib.request.Request(
            address.rstrip("/") + path, method=method, data=None if body is None else json.dumps(body).encode()
        )
        request.add_header("Accept", f"{CONTENT_TYPE}, application/json")
        if body is not None:
            request.add_header("Content-Type", CONTENT_TYPE)
        user_info = self._target.user_info or user_info
        if user_info:
            request.add_header("Authorization", f"Basic {base64.b64encode(user_info.encode()).decode()}")
        try:
            with self._opener.open(request, timeout=self._target.timeout_seconds) as response:
                content = response.read(MAX_SCHEMA_BYTES + 1)
        except urllib.error.HTTPError as refusal:
            if refusal.code in _TRANSIENT_CODES:
                raise
            raise _refusal(refusal, f"{method} {shown_url(address.rstrip('/') + path)}") from None
        return _document(content, f"{method} {shown_url(address.rstrip('/') + path)}")


def _refusal(refusal: urllib.error.HTTPError, request: str) -> SchemaRegistryError:
    try:
        answer = json.loads(refusal.read(MAX_SCHEMA_BYTES))
        reason = f"{answer['message']} (error code {answer.get('error_code', refusal.code)})"
    except (ValueError, KeyError, TypeError, AttributeError, OSError, http.client.HTTPException, RecursionError):
        reason = f"HTTP {refusal.code} {refusal.reason}"
    if refusal.code == 404:
        return UnknownSchemaError(f"not found in the schema registry: {reason} ({request})")
    if 300 <= refusal.code < 400:
        reason = f"it redirects to {refusal.headers.get('Location')!r}: use that address"
    elif refusal.code in (401, 403):
        reason = f"{reason}; set the registry's userPassword to user:password"
    return SchemaRegistryError(f"the schema registry refused the request: {reason} ({request})")


def _document(content: bytes, request: str) -> dict[str, Any]:
    if len(content) > MAX_SCHEMA_BYTES:
        raise SchemaRegistryError(
            f"the answer of the schema registry has more than {MAX_SCHEMA_BYTES} bytes ({request})"
        )
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise SchemaRegistryError(f"the answer does not come from a schema registry: {content[:60]!r} ({request})")
    return answer


def _id_of(answer: dict[str, Any]) -> int:
    found = answer.get("id")
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 2**31:
        raise SchemaRegistryError(f"the schema registry answered without a schema id: {str(answer)[:100]}")
    return found


def _text_of(answer: dict[str, Any]) -> str:
    text = answer.get("schema")
    if not isinstance(text, str):
        raise SchemaRegistryError(f"the schema registry answered without a schema: {str(answer)[:100]}")
    return text


def _posted(text: str, schema_type: str) -> dict[str, Any]:
    # Registries from before schema types know only Avro, and refuse this field.
    return {"schema": text} if schema_type == AVRO else {"schema": text, "schemaType": schema_type}


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _without_user_info(url: str) -> tuple[str, str | None]:
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url, None
    user_info, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), unquote(user_info)
