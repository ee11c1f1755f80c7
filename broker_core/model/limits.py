"""All limits, each with its unit and its reason. A test sends each limit and the limit plus one."""

from __future__ import annotations

MAX_TOPIC_NAME_CHARACTERS = 249
"""Kafka's bound: `name-2147483647` plus a suffix of a deleted folder must fit a file name of 255 bytes."""

MAX_PARTITION_COUNT = 10_000
"""Partitions that one request may ask for; KIP-1073's order of magnitude, and as many folders on one disk."""

MAX_PARTITION_ID = 999_999
"""Of a partition in the metadata log. A topic's partitions are kept as a list up to the highest, 4 bytes each."""

MAX_SNAPSHOT_BATCH_RECORDS = 10_000
"""Of one batch in a snapshot of the metadata log, some 1 MB; as many as Kafka's controller writes in one batch."""

MAX_SNAPSHOT_BYTES = 2**34
"""Of a snapshot of the metadata log: 2 million partitions take 240 MB."""

MAX_WAITING_QUORUM_EVENTS = 10_000
"""What comes to a node of a metadata quorum while it saves something. One more is lost, as on the network."""

MAX_PARKED_QUORUM_FETCHES = 1000
"""Fetches that wait at a quorum's leader for records. One more is answered at once."""

MAX_QUORUM_OBSERVERS = 1000
"""Replicas without a vote that a quorum's leader describes. Others are served and not described."""

MAX_BATCH_BYTES = 2**31 - 1
"""A batch's length is a signed 32-bit number in its header."""

MAX_DECOMPRESSED_BATCH_BYTES = 512 * 1024 * 1024
"""The largest decompressed batch; a larger one is a bomb. Half a worker's usual memory of 1 GiB."""

MAX_DECODED_BYTES = 256 * 1024 * 1024
"""Decompressed bytes that one decoding turns into columns before it returns them; one batch is always decoded."""

MAX_RECORD_HEADER_COUNT = 2**20
"""Headers of one record; each takes at least two bytes, so a count is also checked against the remaining bytes."""

DEFAULT_WRITE_BATCH_BYTES = 1_000_000
"""The size of batches from our writers; below Kafka's default max.message.bytes of 1,048,588."""

DEFAULT_FETCH_BYTES = 8 * 1024 * 1024
"""One fetch by our readers: large enough that its cost vanishes, small enough for a worker's cache and memory."""

MAX_SEQUENCE = 2**31 - 1
"""Sequence numbers wrap to 0 after this one."""

MAX_RECORD_ERROR_COUNT = 10_000
"""Records of one batch that are named one by one when they are refused: what is told of them has to fit in memory."""

PRODUCER_BATCH_WINDOW_COUNT = 5
"""Remembered batches per producer and partition, among which a retry is recognised, as in Kafka."""

PRODUCER_EXPIRATION_CHECK_MS = 600_000
"""How often expired producers are removed, as in Kafka: producer.id.expiration.check.interval.ms."""

PRODUCER_ID_BLOCK_COUNT = 1_000
"""Producer ids that one process reserves by one record of the metadata log, as Kafka's brokers do."""

INDEX_ENTRY_OFFSET_DELTA_MAX = 2**31 - 1
"""Offset-index entries hold the offset relative to the segment base as a signed 32-bit number: it rolls before."""

MAX_OFFSET = 2**63 - 1
"""Offsets are signed 64-bit numbers."""

MAX_OPEN_PARTITION_COUNT = 100
"""Partitions that one process keeps open for reading, three files each, and as many for writing, six files each: of a
usual 1,024."""

MAX_KEPT_READ_BYTES = 4 * 1024 * 1024
"""Read buffers that a process keeps for reuse: as much as a Java consumer of four partitions fetches with one
request."""

MAX_APPEND_GROUP_BYTES = 16 * 1024 * 1024
"""Batches that a broker writes to a partition with one sync, so that later ones do not wait for long."""

MAX_LOOP_APPEND_BYTES = 256 * 1024
"""Batches that a broker's loop writes to a partition itself, in some 0.2 ms; more is written by a thread, which does
not block the loop. One turn may write that much to each partition; and if the kernel throttles writers, with
flush.policy=os, the loop waits."""

MAX_WRITING_BYTES = 64 * 1024 * 1024
"""Batches that a broker writes concurrently, over all partitions: some groups, as many as a disk can handle."""

MAX_QUEUED_APPEND_BYTES = 256 * 1024 * 1024
"""Batches that a broker holds in memory before it stops reading from producers: beyond what a disk writes in some
seconds a longer queue only adds latency."""

COMPACTION_MEMORY_BYTES = 64 * 1024 * 1024
"""Memory for the keys of one compaction pass; half of Kafka's log.cleaner.dedupe.buffer.size, in a worker."""

DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000
"""The default of Kafka's producers (transaction.timeout.ms)."""

MAX_TRANSACTION_TIMEOUT_MS = 900_000
"""The default maximum of a broker (transaction.max.timeout.ms)."""

MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS = 24 * 3600 * 1000
"""The maximum in a directory, where no broker setting can raise it: a batch write's first task waits for its last one,
and jobs may take a day."""

NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1
"""The timeout in the record of a two-phase transaction, which never times out (KIP-939)."""

TRANSACTIONAL_ID_EXPIRATION_MS = 7 * 24 * 3600 * 1000
"""A transactional id without an open transaction is forgotten after this (transactional.id.expiration.ms)."""

MAX_EXPIRED_ID_COUNT = 1_000
"""Transactional ids that one expiration pass ends or forgets: some milliseconds' work, and well below the largest
batch; a caller that gets as many calls again."""

SINGLE_USE_ID_EXPIRATION_MS = 3600 * 1000
"""The same for single-use ids: a frame written each second by two tasks creates two million in a week, which every
process would have to keep."""

MAX_OFFSET_METADATA_BYTES = 4096
"""The metadata of a committed offset (offset.metadata.max.bytes), which Kafka counts in UTF-16 units."""

MAX_APPLICATION_ID_CHARACTERS = 256
"""A sink's txnAppId, which becomes part of a group's name: long enough for users, and short in listings."""

MAX_KEY_FILTER_BYTES = 16 * 1024 * 1024
"""One segment's key filter: room for 14 million different keys at one false positive in a hundred, 1/64 of a segment of
1 GiB. With more keys a filter has more false positives, and never a false negative."""

KEY_FILTER_SPARE_BYTES = 4 * 1024 * 1024
"""Free space that key filters leave: on a full disk even deleting records writes a page before it frees any."""

KEY_FILTER_MAINTENANCE_BYTES = 2 * 1024 * 1024 * 1024
"""Bytes of segments that maintenance after an append reads for key filters: the full segment and one that was skipped
before, at Kafka's segment.bytes. `streamlog log maintain` reads all segments without a filter."""

MAX_UNAUTHENTICATED_FRAME_BYTES = 512 * 1024
"""One request of a client before its login (sasl.server.max.receive.size)."""

MAX_RESPONSE_FRAME_BYTES = 512 * 1024 * 1024
"""One answer to our client: a broker's fetch.max.bytes is 55 MiB, and one batch always fits. Half a worker's memory."""

MAX_FETCH_SESSION_PARTITION_COUNT = 200_000
"""Partitions in the fetch sessions of all clients of a broker, known ones or not: a hundred megabytes. A client that
finds no room fetches without a session."""

MAX_QUOTA_METERS = 10_000
"""Clients whose use of one kind of quota is measured, of a node: a client id is whatever a client says. Twenty MB.
The one that was not seen for longest begins anew when there are more."""

MAX_DELAYED_CLOSES = 1_000
"""Connections beyond `connection_creation_rate` that are kept until they are closed, for a second at most; further ones
are closed at once."""

MAX_ARRAY_ELEMENT_COUNT = 1_000_000
"""Elements of one array of a message; Kafka 4.4 refuses more."""

MAX_TAGGED_FIELD_COUNT = 10_000
"""Tagged fields of one structure of a message; Kafka 4.4 refuses more."""

MAX_SASL_TOKEN_BYTES = 64 * 1024
"""One message of a login at a broker: a name and a password, or a proof. Thousands of connections may send one."""

MIN_SCRAM_ITERATION_COUNT = 4096
"""The minimum for credentials at a broker, of RFC 7677 and Kafka."""

MAX_STORED_SCRAM_ITERATION_COUNT = 16_384
"""The maximum, as in Kafka: every login costs the client that much work."""

MAX_ACCESS_RECORD_COUNT = 10_000
"""Metadata records that one request may cause, as in Kafka: access rules and credentials are written as one batch."""

MIN_REAUTHENTICATION_INTERVAL_MS = 1_000
"""As in Kafka: a client that re-authenticates more often than this is refused."""

LOGIN_RENEWED_AT = 0.85
"""The part of a login's lifetime after which our side closes the connection, before the other one does."""

MAX_SCRAM_ITERATION_COUNT = 1_000_000
"""The iterations that our client accepts from a server, half a second; Kafka's own servers stop at 16,384."""

MAX_IN_FLIGHT_REQUEST_COUNT = 5
"""Produce requests in flight for one partition: a broker remembers as many batches of a producer."""

MAX_CONNECTION_REQUEST_COUNT = 32
"""Requests of one connection that a broker handles concurrently. Java's clients have at most five in flight."""

MAX_CONNECTION_REQUEST_BYTES = 32 * 1024 * 1024
"""The same in bytes; one request is always accepted, however large."""

MAX_TURN_REQUEST_COUNT = 32
"""Requests of one connection before the others get their turn: some milliseconds' work."""

MAX_WRITE_BUFFER_BYTES = 1024 * 1024
"""Unread answers of one connection; with more, the broker reads no further request from it."""

MAX_UNSENT_ANSWER_BYTES = 512 * 1024 * 1024
"""The same for all connections together: nine of the largest fetch answers."""

MAX_STALLED_MS_WHEN_FULL = 5_000
"""While the limit above is reached, a connection whose client reads nothing for this long is closed."""

MAX_TLS_HANDSHAKE_MS = 10_000
"""The clients' own timeout (socket.connection.setup.timeout.ms)."""

MAX_CONFIG_VALUE_CHARACTERS = 32_767
"""Of a setting in the metadata log, as Kafka's controller has it."""

MAX_PREFERRED_ELECTIONS = 1_000
"""Of one run of a controller, as Kafka has it; the rest follows in the next one."""

MAX_WAITING_CONTROLLER_ANSWERS = 10_000
"""Answers of a controller that wait until their records are committed. One more request is refused as timed out."""
