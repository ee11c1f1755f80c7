"""The image of an object log in this process, kept up to date with the store, and changed by single commits.

    commit(plan)
      plan(image) ──► changes ──► PUT commits/<image.number + 1>, only if it does not exist
        │                          created               done: fold it
        │                          exists already        read it: ours (an answer was lost) ──► done
        └──── fold it, plan again ◄───────────────────── another writer's
                                   no answer             read it: ours ──► done; another writer's ──► as above;
                                                         missing ──► the same PUT again

The random writer id shows whether a commit is ours. A plan is always based on the image before its commit number,
because each number is created once: a stale image only loses the race. So the first attempt does not look for new
commits, unless the last two commits of this process lost a race to a few others. Otherwise only if a plan refuses, the
image is brought up to date, and the plan is called again.

Thread-safe. An image that rejects a commit is dropped, and loaded again at the next use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from broker_core.log_directory.fork_guard import watch_for_fork
from broker_core.model.exceptions import (
    CorruptObjectError,
    ObjectOutcomeUnknownError,
    ObjectPreconditionError,
    ObjectStoreUnavailableError,
    ObjectThrottledError,
    StorageError,
    StreamlogError,
)
from broker_core.object_cluster.commit_attempt import CommitAttempt
from broker_core.object_cluster.commit_tail import CommitTail
from broker_core.object_cluster.image_loader import create_log, load_image, no_log, read_commits
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_log.commit import Change, Commit
from broker_core.object_log.commit_codec import encode_commit
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.object_names import commit_path
from broker_core.object_log.tail_guess import TailGuess
from broker_core.object_log.write_turns import WriteTurns
from broker_core.staged_writes import AppVersion

Answer = TypeVar("Answer")

MAX_UNANSWERED_COUNT: Final = 6
"""How often a commit is sent or looked up without an answer before it is an error. Waits double from 100 ms on."""
_FIRST_WAIT_MS: Final = 100.0
_NO_LOG: Final = UUID(int=0)
_WINDOW_AFTER_LOSS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The changes that a plan proposes to commit."""

    changes: Sequence[Change]
    app: AppVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """`base_offsets` of the appended ranges, in their order; empty for a commit by an outline."""

    number: int
    writer: str
    base_offsets: tuple[int, ...]


Plan = Callable[[LogImage], Proposal | None]
"""Reads the image and proposes the next commit; None: there is nothing to do. Raises to refuse."""


class SharedLog:
    """With `create` the first commit creates a missing log. `on_committed(number)` is called after each commit of this
    process."""

    def __init__(
        self, ports: LogPorts, *, create: bool, on_committed: Callable[[int], None] = lambda number: None
    ) -> None:
        self._ports = ports
        self._create = create
        self._on_committed = on_committed
        self._is_closed = False
        self._tail = CommitTail(ports, self._fold)
        self._begin()
        watch_for_fork(self)

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._commit_lock = threading.Lock()
        self._looks = threading.local()
        self._image: LogImage | None = None
        self._looked_at_ms = 0.0
        self._turns = WriteTurns()
        self._found_by_looks = TailGuess()
        self._found_by_commits = TailGuess()
        self._in_flight: str | None = None
        self._found_number = 0

    # -- reading --

    def read(self, look: Callable[[LogImage], Answer], *, fresh: bool = True) -> Answer:
        """The result of `look` on the image. `fresh`: with all commits that existed at the time of the call.

        Raises ObjectLogFormatError if there is no log.
        """
        with self._lock:
            return look(self._up_to_date() if fresh else self._loaded())

    def read_known(self, is_known: Callable[[LogImage], bool], look: Callable[[LogImage], Answer]) -> Answer:
        """The same, but does not look for new commits if `is_known` returns true: they would not change the result."""
        with self._lock:
            image = self._loaded()
            return look(image if is_known(image) else self._up_to_date())

    def read_recent(
        self, is_known: Callable[[LogImage], bool], look: Callable[[LogImage], Answer], *, max_age_ms: float
    ) -> Answer:
        """The same, but looks for new commits also if it last did so longer ago than `max_age_ms`."""
        with self._lock:
            is_recent = self._ports.steady_ms() - self._looked_at_ms <= max_age_ms
            return self.read_known(lambda image: is_recent and is_known(image), look)

    def one_look(self) -> AbstractContextManager[None]:
        """Within it only the first call of this thread looks for new commits."""
        return self._looking(is_done=False)

    def known_state(self) -> AbstractContextManager[None]:
        """Within it no call of this thread looks for new commits."""
        return self._looking(is_done=True)

    @contextmanager
    def _looking(self, *, is_done: bool) -> Iterator[None]:
        """Inside another one it changes nothing."""
        outer, self._looks.is_held = getattr(self._looks, "is_held", False), True
        if not outer:
            self._looks.is_done = is_done
        try:
            yield
        finally:
            self._looks.is_held = outer

    def has_commit_after(self, number: int) -> bool:
        """One request at most; does not load the image."""
        with self._lock:
            if self._image is not None and self._image.number > number:
                return True
        return read_commits(self._ports, range(number + 1, number + 2)) != [None]

    def exists(self) -> bool:
        """Whether there is a log, or it may be created."""
        with self._lock:
            return self._maybe_loaded() is not None or self._create

    def ensure(self) -> None:
        """Creates the log if there is none. Raises ObjectLogFormatError if that is not allowed."""
        with self._commit_lock, self._lock:
            if self._maybe_loaded() is None:
                if not self._create:
                    raise no_log(self._ports)
                self._image = create_log(self._ports)

    def _up_to_date(self) -> LogImage:
        was_loaded = self._image is not None
        image = self._loaded()
        if was_loaded and not (getattr(self._looks, "is_held", False) and self._looks.is_done):
            before = image.number
            self._fold_tail(image, self._found_by_looks.window)
            self._found_by_looks.on_found(image.number - before)
        self._on_looked()
        return image

    def _on_looked(self) -> None:
        self._looks.is_done, self._looked_at_ms = True, self._ports.steady_ms()

    def _loaded(self) -> LogImage:
        image = self._maybe_loaded()
        if image is not None:
            return image
        if self._create:
            return LogImage(_NO_LOG)  # like a directory that does not exist yet
        raise no_log(self._ports)

    def _maybe_loaded(self) -> LogImage | None:
        if self._is_closed:
            raise StorageError(f"The log at {self._ports.store.url} was closed.", url=self._ports.store.url)
        if self._image is None:
            loaded = load_image(self._ports)
            if loaded is not None:
                self._tail.fold_loaded(loaded)
                self._image = loaded.image
                self._on_looked()
        return self._image

    def _fold_tail(self, image: LogImage, window: int = 1) -> None:
        """Folds the commits after the image. Loads the log again at the next use if one of them is damaged or was
        removed."""
        try:
            self._tail.fold(image, window)
        except CorruptObjectError:
            self._image = None
            raise

    def _fold(self, image: LogImage, commit: Commit) -> None:
        try:
            image.apply(commit)
        except StreamlogError:
            self._image = None
            raise
        if commit.writer == self._in_flight:
            self._found_number = commit.number

    # -- writing --

    def commit(self, plan: Plan, *, outline: LogImage | None = None) -> Committed | None:
        """Commits the proposal of `plan` for the newest image; None if it proposed nothing for that image.

        `outline`: an image of a later commit than this process has loaded, complete but for ranges, so that `plan`
        proposes the same for it as for the whole image. Then nothing is loaded if no commit came after it.

        `plan` may be called several times. Raises what it raises, ObjectOutcomeUnknownError if the outcome of the
        commit remains unknown, and other ObjectStoreErrors.
        """
        with self._commit_lock:
            attempt = CommitAttempt(writer=self._ports.entropy.random_bytes(16).hex(), outline=outline)
            self._in_flight, self._found_number = attempt.writer, 0
            try:
                committed = self._commit(plan, attempt)
            finally:
                self._in_flight = None
        if committed is not None:
            self._on_committed(committed.number)
        return committed

    def _commit(self, plan: Plan, attempt: CommitAttempt) -> Committed | None:
        ports = self._ports
        ports.wait_ms(self._turns.wait_before_next_ms(ports.steady_ms(), ports.dice()))
        while True:
            with self._lock:
                if not self._found_number and not self._has_next(plan, attempt):
                    return None
                commit = attempt.commit
                assert commit is not None, "nothing to send"
                # Another thread of this process may have read it meanwhile.
                is_made = self._found_number == commit.number
            attempt.first_number = attempt.first_number or commit.number
            if is_made or self._put(commit, attempt):
                self._found_by_commits.on_found(commit.number - attempt.first_number)
                self._turns.on_committed(commit.number, ports.steady_ms())
                return Committed(number=commit.number, writer=commit.writer, base_offsets=attempt.base_offsets)

    def _has_next(self, plan: Plan, attempt: CommitAttempt) -> bool:
        """Sets the commit to send next. A retry of a number sends the same commit, because the first request may still
        arrive: the log then has what the caller was returned."""
        if self._has_next_by_outline(plan, attempt):
            return True
        image = self._loaded()
        if attempt.commit is not None and attempt.commit.number == image.number + 1:
            return True
        # Among many writers a look is outdated when it is answered; their turns are in `write_turns`.
        window = self._found_by_commits.window
        if not attempt.first_number and self._image is not None and 1 < window <= _WINDOW_AFTER_LOSS:
            attempt.first_number = image.number + 1
            self._fold_tail(image, window)
            attempt.is_fresh = True
        is_absent = self._image is None
        proposal = self._proposal(plan, image, is_fresh=attempt.is_fresh or is_absent)
        if proposal is None and not attempt.is_fresh and not is_absent:
            self._fold_tail(image)
            attempt.is_fresh = True
            proposal = self._proposal(plan, image, is_fresh=True)
        if proposal is None:
            return False
        if is_absent:
            self._image = create_log(self._ports)
            return self._has_next(plan, attempt)
        attempt.commit = self._next_commit(image, proposal, attempt)
        attempt.base_offsets = image.base_offsets_of(attempt.commit)
        return True

    def _has_next_by_outline(self, plan: Plan, attempt: CommitAttempt) -> bool:
        """Once, where the outline is newer than the image."""
        outline, attempt.outline = attempt.outline, None
        if outline is None or (self._image is not None and self._image.number >= outline.number):
            return False
        proposal = self._proposal(plan, outline, is_fresh=False)
        if proposal is None:
            return False
        attempt.commit = self._next_commit(outline, proposal, attempt)
        return True

    def _next_commit(self, image: LogImage, proposal: Proposal, attempt: CommitAttempt) -> Commit:
        return Commit(
            log_id=image.log_id,
            number=image.number + 1,
            writer=attempt.writer,
            time_ms=self._ports.clock.now_ms(),
            changes=tuple(proposal.changes),
            app=proposal.app,
            previous_writer=image.last_writer,
        )

    def _proposal(self, plan: Plan, image: LogImage, *, is_fresh: bool) -> Proposal | None:
        """None also if the plan refuses an image that may be stale: the next image decides."""
        try:
            return plan(image)
        except StreamlogError:
            if is_fresh:
                raise
            return None

    def _put(self, commit: Commit, attempt: CommitAttempt) -> bool:
        """Sends one request, and on failure looks for the commit. Returns whether it is committed."""
        began_ms = self._ports.steady_ms()
        try:
            self._ports.store.put_if_absent(commit_path(commit.number), encode_commit(commit))
        except ObjectPreconditionError:
            return self._is_ours_after_all(commit, attempt)
        except (ObjectOutcomeUnknownError, ObjectThrottledError, ObjectStoreUnavailableError) as error:
            attempt.last_error = error
            return self._is_ours_after_all(commit, attempt)
        self._turns.on_round_trip(self._ports.steady_ms() - began_ms)
        with self._lock:
            # Otherwise another thread has read it already, or the image has to be loaded again.
            if self._image is not None and self._image.number == commit.number - 1:
                self._fold(self._image, commit)
        return True

    def _is_ours_after_all(self, commit: Commit, attempt: CommitAttempt) -> bool:
        """Reads the commit of this number: ours; or another writer's or none, and the commit has to be retried."""
        with self._lock:
            image = self._loaded()
            self._fold_tail(image, _WINDOW_AFTER_LOSS)
            attempt.is_fresh = True
            if self._found_number:
                assert self._found_number == commit.number, f"{commit.number} became {self._found_number}"
                return True
            if image.number >= commit.number:
                attempt.unanswered = 0
                return False
        # It did not arrive, or not yet; or it was refused because of another one in flight, or one that a shared mount
        # does not show yet.
        attempt.unanswered += 1
        if attempt.unanswered >= MAX_UNANSWERED_COUNT:
            raise self._unknown(commit, attempt)
        self._ports.wait_ms(_FIRST_WAIT_MS * float(1 << (attempt.unanswered - 1)) * (0.5 + self._ports.dice()))
        return False

    def _unknown(self, commit: Commit, attempt: CommitAttempt) -> StreamlogError:
        reason = "" if attempt.last_error is None else f" The last error: {attempt.last_error}"
        return ObjectOutcomeUnknownError(
            f"{self._ports.store.url}/{commit_path(commit.number)} was sent {attempt.unanswered} times and is not"
            " there: the commit may still arrive. Repeating it is safe: nothing is committed twice."
            f" (object.timeout.ms, object.max.retries){reason}",
            url=self._ports.store.url,
            object=commit_path(commit.number),
        )

    # -- the end --

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._image = None

    def reset_after_fork(self) -> None:
        self._begin()
