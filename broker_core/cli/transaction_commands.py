"""`streamlog transactions list | describe | abort`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from broker_core.cli.cluster_place import Brokers, CommandConfig, LogLocation, open_cluster
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.screen import (
    Column,
    counted,
    format_duration,
    format_timestamp,
    note,
    partition_json,
    show_json,
    show_table,
)
from broker_core.cluster import Cluster, TransactionDescription
from broker_core.log_directory.system_ports import SystemClock
from broker_core.model.exceptions import UnknownTransactionalIdError
from broker_core.model.limits import NO_TRANSACTION_TIMEOUT_MS
from broker_core.model.transaction_state import TransactionState

app = typer.Typer(help="List, describe and abort transactions.", no_args_is_help=True, rich_markup_mode=None)

STATES: Final = {state.label.lower(): state for state in TransactionState}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list", epilog="Example: streamlog transactions list --path /data/log --open")
def list_transactions(
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Only ids that begin with this.", show_default="all")
    ] = "",
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only transactions in this state, such as Ongoing; may be repeated."),
    ] = None,
    is_open: Annotated[
        bool, typer.Option("--open", help="Only open transactions, which block read-committed readers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List transactional ids and the state of their transactions."""
    states = _states(state or [], is_open=is_open)
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        found = cluster.list_transactions(prefix=prefix, states=states)
    if as_json:
        show_json([_as_json(transaction) for transaction in found])
    elif found:
        _show(found)
    else:
        note("no transaction is open" if is_open and not prefix else "no transaction was found")


@app.command(epilog="Example: streamlog transactions describe my-id --path /data/log")
def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="The transactional id.", show_default=False)],
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show one transaction and the partitions that it wrote to."""
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        found = _described(cluster, transactional_id)
    if as_json:
        show_json(_as_json(found))
        return
    partitions = ", ".join(str(partition) for partition in sorted(found.partitions)) or "-"
    show_table(
        [Column(heading="property"), Column(heading="value", is_long=True)],
        [(name.replace("_", " "), value) for name, value in _texts(found).items()] + [("partitions", partitions)],
    )


@app.command(epilog="Example: streamlog transactions abort my-id --path /data/log")
def abort(
    transactional_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Transactional ids.", show_default=False)
    ] = None,
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Abort every open transaction whose id begins with this, such as a query's id.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Abort open transactions, for example of a dead writer that blocks readers.

    A writer that is still running is fenced: its next write or commit fails. A transaction that was decided is not
    aborted.
    """
    if bool(transactional_ids) == (prefix is not None):
        raise UsageError("give transactional ids, or --prefix")
    if prefix == "":
        raise UsageError("--prefix is empty: it would abort every transaction of the log")
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        if prefix is not None:
            left = cluster.list_transactions(prefix=prefix, states=[TransactionState.ONGOING])
            wanted = [transaction.transactional_id for transaction in left]
        else:
            wanted = list(dict.fromkeys(transactional_ids or []))
            for transactional_id in wanted:
                _described(cluster, transactional_id)  # all of them must be known, otherwise none is aborted
        aborted = [transactional_id for transactional_id in wanted if cluster.abort_transaction(transactional_id)]
    if as_json:
        show_json({"aborted": aborted})
        return
    for transactional_id in wanted:
        note(f"{transactional_id}: {'aborted' if transactional_id in aborted else 'no open transaction'}")
    note(f"{counted(len(aborted), 'transaction')} aborted")


def _states(named: list[str], *, is_open: bool) -> list[TransactionState] | None:
    unknown = [name for name in named if name.lower() not in STATES]
    if unknown:
        raise UsageError(f"--state {unknown[0]!r} is not one of {', '.join(state.label for state in TransactionState)}")
    if is_open:
        if named:
            raise UsageError("--open and --state exclude each other: give one of them")
        return [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT]
    return [STATES[name.lower()] for name in named] or None


def _described(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    found = cluster.describe_transactions([transactional_id]).get(transactional_id)
    if found is None:
        raise UnknownTransactionalIdError(f"transactional id {transactional_id!r} is not known")
    return found


def _show(transactions: tuple[TransactionDescription, ...]) -> None:
    show_table(
        [
            Column(heading="transactional id", is_long=True),
            Column(heading="state"),
            Column(heading="producer", is_number=True),
            Column(heading="epoch", is_number=True),
            Column(heading="partitions", is_number=True),
            Column(heading="open for", is_number=True),
        ],
        [
            (t.transactional_id, t.state.label, str(t.producer_id), t.producer_epoch, len(t.partitions), _open_for(t))
            for t in transactions
        ],
    )


def _open_for(transaction: TransactionDescription) -> str:
    if transaction.start_time_ms < 0 or transaction.state is not TransactionState.ONGOING:
        return "-"
    return format_duration(max(0, SystemClock().now_ms() - transaction.start_time_ms))


def _texts(transaction: TransactionDescription) -> dict[str, str]:
    timeout_ms = transaction.timeout_ms
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state.label,
        "producer_id": str(transaction.producer_id),
        "producer_epoch": str(transaction.producer_epoch),
        "timeout": "none" if timeout_ms == NO_TRANSACTION_TIMEOUT_MS else f"{timeout_ms:,} ms",
        "start_time": format_timestamp(transaction.start_time_ms),
    }


def _as_json(transaction: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state.label,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "start_time_ms": transaction.start_time_ms,
        "partitions": [partition_json(partition) for partition in sorted(transaction.partitions)],
    }
