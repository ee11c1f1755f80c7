"""The REST interface, against a small server that answers as Confluent's registry does."""

import base64
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from spark_streamlog.serde.http_registry import ATTEMPT_COUNT, HttpRegistry
from spark_streamlog.serde.limits import MAX_SCHEMA_BYTES
from spark_streamlog.serde.schema_registry import RegistryTarget
from spark_streamlog.serde.serde_errors import SchemaRegistryError, UnknownSchemaError


class Handler(BaseHTTPRequestHandler):
    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.requests.append((self.command, self.path, body, self.headers.get("Authorization")))
        status, content = self.server.answers.get(
            self.path, (404, {"error_code": 40401, "message": "Subject not found."})
        )
        if isinstance(content, list):
            status, content = content.pop(0) if len(content) > 1 else content[0]
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if status == 302:
            self.send_header("Location", "http://elsewhere/")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def running():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def server(running):
    running.answers, running.requests = {}, []
    return running


def registry(server, *urls, **more):
    address = f"http://127.0.0.1:{server.server_address[1]}"
    pauses = []
    found = HttpRegistry(RegistryTarget(urls=urls or (address,), **more), sleep=pauses.append)
    found.pauses = pauses
    return found


def test_a_schema_is_found_by_id(server):
    server.answers["/schemas/ids/7"] = 200, {"schema": '"int"'}
    server.answers["/schemas/ids/8"] = 200, {"schema": "x", "schemaType": "PROTOBUF"}
    found = registry(server).schema_by_id(7)
    assert (found.schema_id, found.schema_type, found.text, found.references) == (7, "AVRO", '"int"', ())
    assert registry(server).schema_by_id(8).schema_type == "PROTOBUF"


def test_the_latest_version_of_a_subject_with_any_name_is_found(server):
    server.answers["/subjects/a%2Fb%20c-value/versions/latest"] = 200, {"id": 5, "version": 2, "schema": '"long"'}
    found = registry(server).latest("a/b c-value")
    assert (found.schema_id, found.text) == (5, '"long"')


def test_schemas_are_looked_up_and_registered(server):
    server.answers["/subjects/s"] = 200, {"subject": "s", "id": 3, "version": 1, "schema": '"int"'}
    server.answers["/subjects/s/versions"] = 200, {"id": 4}
    assert registry(server).find_id("s", '"int"', "AVRO") == 3
    assert registry(server).register("s", "proto", "PROTOBUF") == 4
    assert [request[:3] for request in server.requests] == [
        ("POST", "/subjects/s", {"schema": '"int"'}),
        ("POST", "/subjects/s/versions", {"schema": "proto", "schemaType": "PROTOBUF"}),
    ]


def test_references_precede_the_schemas_that_use_them(server):
    one = {"name": "A", "subject": "a", "version": 1}
    two = {"name": "B", "subject": "b", "version": 2}
    server.answers["/schemas/ids/1"] = 200, {"schema": "uses B and A", "references": [two, one]}
    server.answers["/subjects/b/versions/2"] = 200, {"id": 12, "schema": "B uses A", "references": [one]}
    server.answers["/subjects/a/versions/1"] = 200, {"id": 11, "schema": "A"}
    assert registry(server).schema_by_id(1).references == ("A", "B uses A")


def test_circular_references_end(server):
    circle = {"name": "A", "subject": "a", "version": 1}
    server.answers["/schemas/ids/1"] = 200, {"schema": "x", "references": [circle]}
    server.answers["/subjects/a/versions/1"] = 200, {"id": 1, "schema": "A", "references": [circle]}
    assert registry(server).schema_by_id(1).references == ("A",)


def test_user_and_password_are_sent_from_the_setting_or_the_url(server):
    server.answers["/schemas/ids/7"] = 200, {"schema": '"int"'}
    registry(server, user_info="me:p:w").schema_by_id(7)
    port = server.server_address[1]
    registry(server, f"http://you:p%40ss@127.0.0.1:{port}/").schema_by_id(7)
    sent = [base64.b64decode(request[3].removeprefix("Basic ")).decode() for request in server.requests]
    assert sent == ["me:p:w", "you:p@ss"]


def test_a_missing_schema_or_subject_is_unknown(server):
    server.answers["/schemas/ids/9"] = 404, {"error_code": 40403, "message": "Schema 9 not found"}
    with pytest.raises(UnknownSchemaError, match=r"Schema 9 not found \(error code 40403\) \(GET http://127"):
        registry(server).schema_by_id(9)
    server.answers["/schemas/ids/9"] = 404, b"<html>"
    with pytest.raises(UnknownSchemaError, match="HTTP 404"):
        registry(server).schema_by_id(9)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (401, {"error_code": 401, "message": "Unauthorized"}, "Unauthorized .* userPassword to user:password"),
        (403, b"", "HTTP 403 .* userPassword to user:password"),
        (409, {"error_code": 409, "message": "incompatible"}, r"refused the request: incompatible \(error code 409\)"),
        (422, {"error_code": 42201, "message": "Invalid schema"}, "Invalid schema"),
        (302, b"", "it redirects to 'http://elsewhere/': use that address"),
        (200, b"<html>", "the answer does not come from a schema registry"),
        (200, b"[1]", "the answer does not come from a schema registry"),
        (200, {"no": "schema"}, "answered without a schema"),
        (200, {"schema": 5}, "answered without a schema"),
        (200, {"schema": "x", "references": [5]}, "an invalid reference"),
        (200, b"x" * (MAX_SCHEMA_BYTES + 1), f"more than {MAX_SCHEMA_BYTES} bytes"),
        (200, b"[" * 100_000, "the answer does not come from a schema registry"),
    ],
)
def test_refusals_and_invalid_answers_fail_the_query(server, status, content, said):
    server.answers["/schemas/ids/1"] = status, content
    with pytest.raises(SchemaRegistryError, match=said) as error:
        registry(server).schema_by_id(1)
    assert not isinstance(error.value, UnknownSchemaError)
    assert len(server.requests) == 1


@pytest.mark.parametrize("number", ["5", True, -1, 2**31, None])
def test_an_answer_without_a_valid_id_is_refused(server, number):
    server.answers["/subjects/s/versions"] = 200, {"id": number}
    with pytest.raises(SchemaRegistryError, match="without a schema id"):
        registry(server).register("s", '"int"', "AVRO")


def test_a_transient_error_is_retried(server):
    server.answers["/schemas/ids/1"] = 0, [(503, {}), (429, {}), (200, {"schema": '"int"'})]
    client = registry(server)
    assert client.schema_by_id(1).text == '"int"'
    assert len(server.requests) == len(client.pauses) + 1 == ATTEMPT_COUNT


def test_a_lasting_error_names_the_address_without_the_password(server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://me:secret@127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SchemaRegistryError, match=r"does not answer \(GET /schemas/ids/1, 3 attempts\)") as error:
            registry(server, url).schema_by_id(1)
    assert "http://127.0.0.1" in error.value.message
    assert "secret" not in error.value.message


def test_the_next_address_is_tried_when_one_is_down(server):
    server.answers["/schemas/ids/1"] = 200, {"schema": '"int"'}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{taken.getsockname()[1]}"
        client = registry(server, down, f"http://127.0.0.1:{server.server_address[1]}")
        assert client.schema_by_id(1).text == '"int"'
    assert client.pauses == []


def test_a_silent_server_times_out(server):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = registry(server, f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_seconds=0.05)
        with pytest.raises(SchemaRegistryError, match="timed out"):
            client.schema_by_id(1)


def test_only_http_urls_are_accepted():
    with pytest.raises(SchemaRegistryError, match="http or https"):
        HttpRegistry(RegistryTarget(urls=("file:///etc/passwd",)))
