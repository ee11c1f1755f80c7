"""The application `streamlog`: combines the command groups, and reports every error without a traceback.

A command is imported only if it is named, and all of them for --help: the imports of one command would take the others
longer than their work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Annotated, Final

import typer

from broker_core.cli.error_sentence import sentence
from broker_core.cli.exit_status import (
    ERROR,
    EXIT_CODES_HELP,
    INTERRUPTED,
    OK,
    OUTPUT_CLOSED,
    USAGE,
)
from broker_core.cli.printable import printable
from broker_core.model.exceptions import StreamlogError
from broker_core.model.loading import without_collections

DISTRIBUTION: Final = "spark-streamlog"
HELP_WIDTH: Final = 100


def _add_topic(app: typer.Typer) -> None:
    from broker_core.cli import topic_commands

    app.add_typer(topic_commands.app, name="topic")


def _add_log(app: typer.Typer) -> None:
    from broker_core.cli import log_commands

    app.add_typer(log_commands.app, name="log")


def _add_group(app: typer.Typer) -> None:
    from broker_core.cli import group_commands

    app.add_typer(group_commands.app, name="group")


def _add_transactions(app: typer.Typer) -> None:
    from broker_core.cli import transaction_commands

    app.add_typer(transaction_commands.app, name="transactions")


def _add_quorum(app: typer.Typer) -> None:
    from broker_core.cli import quorum_commands

    app.add_typer(quorum_commands.app, name="quorum")


def _add_partitions(app: typer.Typer) -> None:
    from broker_core.cli import partition_commands

    app.add_typer(partition_commands.app, name="partitions")


def _add_storage(app: typer.Typer) -> None:
    from broker_core.cli import storage_commands

    app.add_typer(storage_commands.app, name="storage")


def _add_broker(app: typer.Typer) -> None:
    from broker_core.cli import broker_command

    short_help = "Serve a log directory to Kafka clients; list and unregister brokers."
    app.add_typer(broker_command.app, name="broker", short_help=short_help)


def _add_cluster(app: typer.Typer) -> None:
    from broker_core.cli import cluster_commands

    app.add_typer(cluster_commands.app, name="cluster")


def _add_migrate(app: typer.Typer) -> None:
    from broker_core.cli import migrate_commands

    app.add_typer(migrate_commands.app, name="migrate")


def _add_produce(app: typer.Typer) -> None:
    from broker_core.cli import produce_command

    app.command("produce", epilog=produce_command.EXAMPLE, short_help="Write lines to a topic.")(
        produce_command.produce
    )


def _add_consume(app: typer.Typer) -> None:
    from broker_core.cli import consume_command

    app.command("consume", epilog=consume_command.EXAMPLE, short_help="Read the values of a topic.")(
        consume_command.consume
    )


_COMMANDS: Final[Mapping[str, Callable[[typer.Typer], None]]] = MappingProxyType(
    {
        "topic": _add_topic,
        "log": _add_log,
        "group": _add_group,
        "transactions": _add_transactions,
        "quorum": _add_quorum,
        "storage": _add_storage,
        "partitions": _add_partitions,
        "broker": _add_broker,
        "cluster": _add_cluster,
        "migrate": _add_migrate,
        "produce": _add_produce,
        "consume": _add_consume,
    }
)


@cache
def _application(command: str | None) -> typer.Typer:
    """With one command, or with all of them."""
    app = typer.Typer(
        name="streamlog",
        help="Kafka's partitioned log in Python: topics, records, consumer groups and files, in a directory or at "
        "brokers.",
        epilog=EXIT_CODES_HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH},
    )
    app.callback()(options)
    with without_collections():
        for name in _COMMANDS if command is None else (command,):
            _COMMANDS[name](app)
    return app


def _show_version(is_asked: bool) -> None:
    if not is_asked:
        return
    # Imported here, so that --help and a wrong argument are answered at once.
    from importlib.metadata import version

    from broker_core.record.active_kernel import KERNEL_NAME

    typer.echo(f"streamlog {version(DISTRIBUTION)}, {KERNEL_NAME} record kernel")
    raise typer.Exit


def options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and the record kernel in use."
        ),
    ] = False,
) -> None:
    """The options before the command."""


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; prints an error in one sentence on stderr."""
    try:
        command = arguments[0] if arguments and arguments[0] in _COMMANDS else None
        result = _application(command)(list(arguments), prog_name="streamlog", standalone_mode=False)
        return result if isinstance(result, int) else OK
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return OUTPUT_CLOSED
    except (StreamlogError, OSError, MemoryError) as error:
        return _complain(sentence(error), ERROR)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error, file=sys.stderr)  # the whole help, which is not a sentence
            return USAGE
        if hasattr(error, "format_message"):  # the parser's own errors, of either package
            return _complain(sentence_of_usage(error), int(getattr(error, "exit_code", USAGE)))
        raise


def sentence_of_usage(error: Exception) -> str:
    """The parser's error, with the given value, an example if something is missing, and a hint at the help."""
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    words = [_as_sentence(f"{' '.join(text.replace('Value error, ', '').split()).rstrip('.')}{_given(error, text)}")]
    if context is not None and context.command.epilog and type(error).__name__ == "MissingParameter":
        words.append(f"{context.command.epilog}.")
    words.append(f"Try '{context.command_path if context is not None else 'streamlog'} --help'.")
    return " ".join(words)


def _as_sentence(text: str) -> str:
    """With a full stop, unless it is a question."""
    return text if text.endswith("?") else f"{text}."


def _given(error: Exception, text: str) -> str:
    """The refused value: some parsers have it only in the cause of their error."""
    causes = getattr(error.__cause__, "errors", None)
    given = [str(cause["input"]) for cause in causes()] if callable(causes) else []
    return f" (given: {given[0]!r})" if given and repr(given[0]) not in text else ""


def _complain(text: str, status: int) -> int:
    print(f"streamlog: {printable(text)}", file=sys.stderr)
    return status
