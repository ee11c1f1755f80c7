"""Every bound of the house, each with its unit and its reason. A test sends the bound and the bound plus one."""

from __future__ import annotations

MAX_TOPIC_NAME_CHARACTERS = 249
"""Kafka's bound: `name-2147483647` plus a suffix of a deleted folder must fit a file name of 255 bytes."""

MAX_PARTITION_COUNT = 10_000
"""Partitions that one request may ask for; KIP-1073's order of magnitude, and as many folders on one disk."""

MAX_BATCH_BYTES = 2**31 - 1
"""A batch's length is a signed 32-bit number in its header."""

MAX_DECOMPRESSED_BATCH_BYTES = 512 * 1024 * 1024
"""What one compressed batch may inflate to; beyond it is a bomb. Half a worker's usual memory of 1 GiB."""

MAX_DECODED_BYTES = 256 * 1024 * 1024
"""Batches, as inflated, that one decoding turns into columns before it hands them over; one batch is always taken."""

MAX_RECORD_HEADER_COUNT = 2**20
"""Headers of one record; each costs at least two bytes, so a count is also held against the bytes that remain."""

DEFAULT_WRITE_BATCH_BYTES = 1_000_000
"""Records gathered into one batch by our writers; below Kafka's default max.message.bytes of 1,048,588."""

DEFAULT_FETCH_BYTES = 8 * 1024 * 1024
"""One fetch by our readers: large enough that its cost vanishes, small enough for a worker's cache and memory."""

MAX_SEQUENCE = 2**31 - 1
"""Sequence numbers wrap to 0 after this one."""

PRODUCER_BATCH_WINDOW_COUNT = 5
"""Batches per producer and partition that a retry is recognised among: Kafka's max.in.flight for idempotence."""

PRODUCER_EXPIRATION_CHECK_MS = 600_000
"""How often silent producers are looked for, as Kafka does: producer.id.expiration.check.interval.ms."""

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
"""Memory for reads of logs that a process keeps to use it again: as much as a Java consumer of four partitions fetches
with one request."""

MAX_APPEND_GROUP_BYTES = 16 * 1024 * 1024
"""Batches that a broker writes to a partition with one sync; what is queued behind them does not wait for long."""

MAX_LOOP_APPEND_BYTES = 256 * 1024
"""Batches that a broker's loop writes to a partition by itself, which takes it some 0.2 ms; more is a thread's work,
which looks at records and writes without keeping the loop. A turn writes as much to each partition that it has
something for; and where the kernel holds back who writes too much, with flush.policy=os, it is the loop that waits."""

MAX_WRITING_BYTES = 64 * 1024 * 1024
"""Batches that a broker is writing at one time, of all partitions: some groups, as many as a disk can take at once."""

MAX_QUEUED_APPEND_BYTES = 256 * 1024 * 1024
"""Batches that a broker holds in memory, written or waiting to be, before it reads no more from producers: beyond what
a disk takes in some seconds a longer queue only adds to the delay."""

COMPACTION_MEMORY_BYTES = 64 * 1024 * 1024
"""For the keys that one pass of a compaction remembers; half of Kafka's log.cleaner.dedupe.buffer.size, in a worker."""

DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000
"""What Kafka's producers ask for (transaction.timeout.ms)."""

MAX_TRANSACTION_TIMEOUT_MS = 900_000
"""The longest that a broker grants unless told otherwise (transaction.max.timeout.ms)."""

MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS = 24 * 3600 * 1000
"""The same in a directory, where no administrator of a broker could raise it: a batch write's first task waits for its
last one, and jobs of a day exist."""

NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1
"""In a transaction's record: it is two-phase and never times out (KIP-939)."""

TRANSACTIONAL_ID_EXPIRATION_MS = 7 * 24 * 3600 * 1000
"""A transactional id without an open transaction is forgotten after this (transactional.id.expiration.ms)."""

MAX_EXPIRED_ID_COUNT = 1_000
"""Transactional ids that one look at the clock ends or forgets: some milliseconds' work, and well below the largest
batch; who has got as many asks again."""

SINGLE_USE_ID_EXPIRATION_MS = 3600 * 1000
"""The same for ids that nobody uses a second time: a frame written each second by two tasks has two million in a week,
which every process would have to know."""

MAX_OFFSET_METADATA_BYTES = 4096
"""Of the text beside a committed offset (offset.metadata.max.bytes), which Kafka counts in UTF-16 units."""

MAX_APPLICATION_ID_CHARACTERS = 256
"""Of a sink's txnAppId, which becomes part of a group's name: as long as anybody writes, and short in every list."""

MAX_KEY_FILTER_BYTES = 16 * 1024 * 1024
"""Of one segment's key filter: room for 14 million different keys at one wrong yes in a hundred, 1/64 of a segment of
1 GiB. With more keys than that a filter says yes more often, and never a wrong no."""

KEY_FILTER_SPARE_BYTES = 4 * 1024 * 1024
"""Free space that key filters leave: on a full disk even the deleting of records writes a page before it frees any."""

KEY_FILTER_UPKEEP_BYTES = 2 * 1024 * 1024 * 1024
"""Segments that the maintenance behind an append reads for key filters: the one that is full, and one that was left out
before, at Kafka's segment.bytes. `streamlog log maintain` reads all that have none."""

MAX_REQUEST_FRAME_BYTES = 100 * 1024 * 1024
"""One request at a broker (socket.request.max.bytes)."""

MAX_UNAUTHENTICATED_FRAME_BYTES = 512 * 1024
"""One request of somebody who has not said who he is (sasl.server.max.receive.size)."""

MAX_RESPONSE_FRAME_BYTES = 512 * 1024 * 1024
"""One answer at a client: a broker's fetch.max.bytes is 55 MiB, and one batch always fits. Half a worker's memory."""

MAX_FETCH_SESSION_PARTITION_COUNT = 200_000
"""Partitions that the fetch sessions of all clients of a broker name together, known ones or not: a hundred megabytes.
A client that finds no room fetches without a session."""

MAX_ARRAY_ELEMENT_COUNT = 1_000_000
"""Of one array of a message; Kafka 4.4 refuses more."""

MAX_TAGGED_FIELD_COUNT = 10_000
"""Of one structure of a message; Kafka 4.4 refuses more."""

MAX_SASL_TOKEN_BYTES = 64 * 1024
"""One message of a login at a broker: a name and a password, or a proof. Thousands of connections may send one."""

MIN_SCRAM_ITERATION_COUNT = 4096
"""Of a credential that a broker takes: RFC 7677's least, and Kafka's."""

MAX_STORED_SCRAM_ITERATION_COUNT = 16_384
"""The most, as in Kafka: every login makes the client do so much work."""

MAX_ACCESS_RECORD_COUNT = 10_000
"""Metadata records that one request may cause, as in Kafka: access rules and credentials are written as one batch."""

MIN_REAUTHENTICATION_INTERVAL_MS = 1_000
"""Kafka's: a client that logs in anew on its connection more often than this is refused."""

MAX_SCRAM_ITERATION_COUNT = 1_000_000
"""What a server may ask of a client's processor for one login, half a second; Kafka's own servers stop at 16,384."""

MAX_IN_FLIGHT_REQUEST_COUNT = 5
"""Produce requests of one partition on their way at once: a broker remembers as many batches of a producer."""

MAX_CONNECTION_REQUEST_COUNT = 32
"""Requests of one connection that a broker works at at a time. Java's clients have five on their way at most."""

MAX_CONNECTION_REQUEST_BYTES = 32 * 1024 * 1024
"""The same in bytes; one request is always taken, however large."""

MAX_TURN_REQUEST_COUNT = 32
"""Requests of one connection before the others get their turn: some milliseconds' work."""

MAX_WRITE_BUFFER_BYTES = 1024 * 1024
"""Of answers of one connection that its client does not fetch; with more, no further request of it is taken."""

MAX_UNSENT_ANSWER_BYTES = 512 * 1024 * 1024
"""The same of all connections together: nine of the largest answers to a fetch."""

MAX_STALLED_MS_WHEN_FULL = 5_000
"""Who fetches nothing of his answers for so long is closed while the bound above is reached."""

MAX_TLS_HANDSHAKE_MS = 10_000
"""As long as clients give it (socket.connection.setup.timeout.ms)."""
