"""`streamlog` as one application: the command groups put together, and every ending a quiet one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from broker_core.cli import consume_command, log_commands, produce_command, topic_commands
from broker_core.cli.exit_status import (
    EXIT_CODES_HELP,
    INTERRUPTED,
    OK,
    OUTPUT_CLOSED,
    TROUBLE,
    USAGE,
)
from broker_core.cli.trouble import UsageTrouble, sentence
from broker_core.model.exceptions import StreamlogError

app = typer.Typer(
    name="streamlog",
    help="Kafka's partitioned log in a directory: make topics, write and read values, look after the files.",
    epilog=EXIT_CODES_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topic_commands.app, name="topic")
app.add_typer(log_commands.app, name="log")
app.command("produce")(produce_command.produce)
app.command("consume")(consume_command.consume)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and gives its exit code; trouble is told in one sentence on stderr."""
    try:
        result = app(list(arguments), prog_name="streamlog", standalone_mode=False)
        return result if isinstance(result, int) else OK
    except UsageTrouble as trouble:
        return _complain(sentence_of_usage(trouble), USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return OUTPUT_CLOSED
    except (StreamlogError, OSError, MemoryError) as trouble:
        return _complain(sentence(trouble), TROUBLE)
    except Exception as trouble:
        if hasattr(trouble, "format_message"):  # the parser's own errors, whichever package they come from
            return _complain(sentence_of_usage(trouble), int(getattr(trouble, "exit_code", USAGE)))
        raise


def sentence_of_usage(trouble: Exception) -> str:
    """The parser's complaint, with the way to the help."""
    text = trouble.format_message() if hasattr(trouble, "format_message") else str(trouble)
    context = getattr(trouble, "ctx", None)
    command = context.command_path if context is not None else "streamlog"
    return f"{' '.join(text.split()).rstrip('.')}. Try '{command} --help'."


def _complain(text: str, status: int) -> int:
    print(f"streamlog: {text}", file=sys.stderr)
    return status
