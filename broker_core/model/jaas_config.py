"""Users and passwords from `sasl.jaas.config`, Java's login configuration.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="s3cret";
    org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="s3cret" user_bob="…";      at a broker

Module, control flag, options `name=value` and a semicolon; a value stands in double or single quotes, with backslash
escapes, or bare. A message never repeats the text: it holds the password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from broker_core.model.exceptions import InvalidConfigError

_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN_MODULES: Final = {
    _PLAIN_MODULE: ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
"""Login modules that take a name and a password, with their mechanisms."""

_ENTRY: Final = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?P<flag>required|requisite|sufficient|optional)(?P<options>(?:\s.*?)?);\s*",
    re.DOTALL | re.IGNORECASE,
)
_OPTION: Final = re.compile(
    r"""\s*(?P<name>[\w.$-]+)\s*=\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s;"']+))""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class JaasLogin:
    """A user name, its password, and the mechanisms of the named module."""

    mechanisms: tuple[str, ...]
    username: str
    password: str = field(repr=False)


def parse_jaas_config(text: str) -> JaasLogin:
    """Raises an InvalidConfigError that says what is missing, without the text."""
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise InvalidConfigError(
            'sasl.jaas.config must be of the form: <login module> required username="…" password="…";'
        )
    module = entry["module"]
    if module not in LOGIN_MODULES:
        raise InvalidConfigError(
            f"sasl.jaas.config has the login module {module}; supported are {' or '.join(LOGIN_MODULES)}"
        )
    options = _options(entry["options"])
    for name in ("username", "password"):
        if name not in options:
            raise InvalidConfigError(f"sasl.jaas.config has no {name}")
    return JaasLogin(mechanisms=LOGIN_MODULES[module], username=options["username"], password=options["password"])


def parse_jaas_users(text: str) -> dict[str, str]:
    """The passwords of all users of PLAIN in a broker's setting. Raises an InvalidConfigError without the text."""
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise InvalidConfigError('sasl.jaas.config must be of the form: <login module> required user_<name>="…";')
    if "PLAIN" not in LOGIN_MODULES.get(entry["module"], ()):
        raise InvalidConfigError(
            f"sasl.jaas.config has the login module {entry['module']}; users of PLAIN need {_PLAIN_MODULE}"
        )
    options = _options(entry["options"])
    return {name.removeprefix("user_"): value for name, value in options.items() if name.startswith("user_")}


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    position = 0
    while text[position:].strip():
        found = _OPTION.match(text, position)
        if found is None:
            raise InvalidConfigError('sasl.jaas.config must have only name="value" pairs after the login module')
        quoted = found["double"] if found["double"] is not None else found["single"]
        options[found["name"]] = found["bare"] if quoted is None else _ESCAPE.sub(r"\1", quoted)
        position = found.end()
    return options
