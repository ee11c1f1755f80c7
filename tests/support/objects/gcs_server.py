"""A server that speaks the part of Google Cloud Storage's XML API that the client library uses, in memory.

    PUT, GET, HEAD, DELETE /bucket/object      with x-goog-if-generation-match, Range; each version has a new generation
    GET /bucket?list-type=2&prefix=…           in the order of names, PAGE objects a page
    POST ?uploads, PUT ?partNumber&uploadId,   an upload in parts: nothing is visible before the last request
    POST ?uploadId, DELETE ?uploadId

As in https://cloud.google.com/storage/docs/xml-api/reference-headers: a precondition that does not hold is answered
with 412, and generation 0 means that the object does not exist. fake-gcs-server has no writes of this API.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 500


@dataclass(frozen=True)
class StoredVersion:
    data: bytes
    generation: int
    modified_s: int

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'


class GcsServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, bucket: str) -> None:
        super().__init__(("127.0.0.1", 0), XmlRequest)
        self.bucket = bucket
        self.lock = threading.Lock()
        self.objects: dict[str, StoredVersion] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.generations = itertools.count(1_700_000_000_000_001)

    def options(self) -> dict[str, str]:
        """Of `open_objects`. The key of the service account says that no token is needed."""
        key = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        return {
            "object.endpoint": f"http://127.0.0.1:{self.server_address[1]}",
            "object.allow.http": "true",
            "object.service.account.secret.key": json.dumps(key),
            "object.max.retries": "1",
        }

    def store(self, name: str, data: bytes) -> StoredVersion:
        self.objects[name] = StoredVersion(data, next(self.generations), 1_764_000_000)
        return self.objects[name]


@contextmanager
def gcs(bucket: str) -> Iterator[GcsServer]:
    server = GcsServer(bucket)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class XmlRequest(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: GcsServer

    def do_PUT(self) -> None:
        if not self._is_in_bucket():
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name, query = self._name(), self._query()
        with self.server.lock:
            if "uploadId" in query:
                self.server.uploads[query["uploadId"]][int(query["partNumber"])] = body
                self._answer(200, headers={"ETag": f'"{len(body)}"'})
                return
            found = self.server.objects.get(name)
            wanted = self.headers.get("x-goog-if-generation-match")
            if wanted is not None and int(wanted) != (found.generation if found else 0):
                self._refuse(412, "PreconditionFailed", "A pre-condition does not hold.")
                return
            stored = self.server.store(name, body)
        self._answer(200, headers=_headers_of(stored))

    def do_GET(self) -> None:
        if not self._is_in_bucket():
            return
        name, query = self._name(), self._query()
        if not name:
            self._list(query)
            return
        found = self.server.objects.get(name)
        if found is None:
            self._refuse(404, "NoSuchKey", "The specified key does not exist.")
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self._answer(200, found.data, headers=_headers_of(found))
            return
        first, last = int(wanted[1]), min(int(wanted[2] or 1 << 60), len(found.data) - 1)
        place = {"Content-Range": f"bytes {first}-{last}/{len(found.data)}"}
        self._answer(206, found.data[first : last + 1], headers=_headers_of(found) | place)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        if not self._is_in_bucket():
            return
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name, query = self._name(), self._query()
        if "uploads" in query:
            upload = str(next(self.server.generations))
            self.server.uploads[upload] = {}
            self._answer(200, _xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>"))
            return
        with self.server.lock:
            parts = self.server.uploads.pop(query["uploadId"])
            stored = self.server.store(name, b"".join(parts[number] for number in sorted(parts)))
        body = _xml("CompleteMultipartUploadResult", f"<ETag>{escape(stored.etag)}</ETag>")
        self._answer(200, body, headers={"x-goog-generation": str(stored.generation)})

    def do_DELETE(self) -> None:
        if not self._is_in_bucket():
            return
        query = self._query()
        if "uploadId" in query:
            self.server.uploads.pop(query["uploadId"], None)
            self._answer(204)
        elif self.server.objects.pop(self._name(), None) is None:
            self._refuse(404, "NoSuchKey", "The specified key does not exist.")
        else:
            self._answer(204)

    def _list(self, query: dict[str, str]) -> None:
        after = query.get("continuation-token") or query.get("start-after", "")
        prefix = query.get("prefix", "")
        names = [name for name in sorted(self.server.objects) if name.startswith(prefix) and name > after]
        rows = "".join(self._row(name) for name in names[:PAGE])
        more = f"<NextContinuationToken>{escape(names[PAGE - 1])}</NextContinuationToken>" if names[PAGE:] else ""
        self._answer(200, _xml("ListBucketResult", rows + more))

    def _row(self, name: str) -> str:
        found = self.server.objects[name]
        return (
            f"<Contents><Key>{escape(name)}</Key><Size>{len(found.data)}</Size>"
            f"<LastModified>2025-11-24T16:00:00.000Z</LastModified><ETag>{escape(found.etag)}</ETag></Contents>"
        )

    def _is_in_bucket(self) -> bool:
        if urlsplit(self.path).path.lstrip("/").partition("/")[0] == self.server.bucket:
            return True
        self.close_connection = True  # a body is still to come
        self._refuse(404, "NoSuchBucket", "The specified bucket does not exist.")
        return False

    def _name(self) -> str:
        return unquote(urlsplit(self.path).path.lstrip("/").partition("/")[2])

    def _query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query, True).items()}

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._answer(status, _xml("Error", f"<Code>{code}</Code><Message>{message}</Message>"))

    def _answer(self, status: int, body: bytes = b"", *, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def _headers_of(stored: StoredVersion) -> dict[str, str]:
    return {
        "ETag": stored.etag,
        "x-goog-generation": str(stored.generation),
        "Last-Modified": formatdate(stored.modified_s, usegmt=True),
    }


def _xml(root: str, content: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?><{root}>{content}</{root}>'.encode()
