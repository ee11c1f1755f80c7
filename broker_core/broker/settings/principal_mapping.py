r"""Maps a certificate's subject to a user name: `ssl.principal.mapping.rules` (KIP-371).

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/$1@example/L,DEFAULT

Rules are tried in order; the first whose pattern matches the whole subject determines the name by its replacement, with
`$1` for a group, and with L or U at the end for lower or upper case. DEFAULT uses the unchanged subject. If no rule
matches, the login fails. `\/` is a slash, `\,` a comma.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from broker_core.model.exceptions import AuthenticationError, InvalidConfigError

_SETTING: Final = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_GROUP: Final = re.compile(r"\\(.)|\$(\d)")
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """`pattern` None: DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        found = self.pattern.fullmatch(subject)
        if found is None:
            return None
        name = _GROUP.sub(lambda one: one[1] if one[1] else found[int(one[2])] or "", self.replacement)
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalMapping:
    rules: tuple[_Rule, ...]

    def name_of(self, subject: str) -> str:
        """Raises AuthenticationError if no rule matches."""
        for rule in self.rules:
            name = rule.apply(subject)
            if name is not None:
                return name
        raise AuthenticationError(
            f"no rule of {_SETTING} matches the certificate's subject {subject!r}", subject=subject
        )


def parse_principal_mapping(text: str) -> PrincipalMapping:
    """Raises InvalidConfigError with the invalid rule in its message."""
    rules: list[_Rule] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _RULE.match(text, position)
        if found is None:
            raise InvalidConfigError(
                f"{_SETTING}: {text[position:].strip()!r} is not a rule; write DEFAULT or RULE:pattern/replacement/, "
                "optionally followed by L or U; separate rules with commas",
                setting=_SETTING,
                value=text,
            )
        rules.append(_rule(found, text))
        position = found.end()
    return PrincipalMapping(rules=tuple(rules) or (_Rule(pattern=None),))


def _rule(found: re.Match[str], text: str) -> _Rule:
    if found["default"]:
        return _Rule(pattern=None)
    source = found["pattern"].replace("\\/", "/")
    try:
        pattern = re.compile(_NAMED_GROUP.sub("(?P<", source))
    except re.error as error:
        raise InvalidConfigError(
            f"{_SETTING}: {source!r} is not a regular expression ({error})", setting=_SETTING, value=text
        ) from error
    replacement = found["replacement"]
    highest = max((int(one[2]) for one in _GROUP.finditer(replacement) if one[2]), default=0)
    if highest > pattern.groups:
        raise InvalidConfigError(
            f"{_SETTING}: the replacement {replacement!r} refers to group {highest}, but {source!r} has"
            f" {pattern.groups}",
            setting=_SETTING,
            value=text,
        )
    return _Rule(pattern=pattern, replacement=replacement, case=found["case"])
