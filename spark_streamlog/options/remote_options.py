"""The options of a connection to brokers: `kafka.bootstrap.servers`, and a Kafka client's settings as `kafka.*`."""

from __future__ import annotations

import re
from typing import Final, Protocol

from broker_core.model.client_settings import CLIENT_SETTING_NAMES, ClientSettings, parse_client_settings
from broker_core.model.exceptions import InvalidConfigError

PREFIX: Final = "kafka."

_ONLY_OF_WRITERS: Final = {"delivery.timeout.ms"}

_SETTING_NAME: Final = re.compile(
    rf"(?<![\w.])({'|'.join(re.escape(name) for name in sorted(CLIENT_SETTING_NAMES, key=len, reverse=True))})(?![\w.])"
)


class GivenOptions(Protocol):
    """The used part of an `OptionReader`."""

    @property
    def role(self) -> str: ...

    def text(self, name: str) -> str | None: ...

    def complain(self, complaint: str) -> None: ...


def remote_settings(options: GivenOptions) -> ClientSettings | None:
    """How to connect to the brokers; None if no option names any. Errors become complaints of `options`."""
    if options.text(f"{PREFIX}bootstrap.servers") is None:
        return None
    names = CLIENT_SETTING_NAMES if options.role == "sink" else set(CLIENT_SETTING_NAMES) - _ONLY_OF_WRITERS
    given = {name: value for name in names if (value := options.text(PREFIX + name)) is not None}
    try:
        return parse_client_settings(given)
    except InvalidConfigError as error:
        for complaint in getattr(error, "complaints", (error.message,)):
            options.complain(_SETTING_NAME.sub(rf"{PREFIX}\1", complaint))
        return None
