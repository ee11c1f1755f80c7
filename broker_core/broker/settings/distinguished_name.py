r"""The subject of a certificate as text, in Java's format, from which Kafka derives principals (RFC 2253).

    CN=ann,OU=data,O=Example\, Inc.,C=DE          the most specific first, in reverse order of the certificate

Only the attributes of RFC 2253 have names; for others the text has the object identifier, and the value in hexadecimal:
`1.2.840.113549.1.9.1=#160c616e6e406578616d706c652e636f6d`. The certificate was verified before: its structure is not
checked again, but nothing is read beyond its end.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from broker_core.model.exceptions import AuthenticationError

_NAMES: Final = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU",
    "2.5.4.9": "STREET", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}  # fmt: skip
_ENCODINGS: Final = {
    12: "utf-8",
    19: "utf-8",
    20: "latin-1",
    22: "utf-8",
    27: "utf-8",
    28: "utf-32-be",
    30: "utf-16-be",
}
"""Encodings of string types by tag: UTF8String, PrintableString, T61, IA5, General, Universal, BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION_TAG: Final = 0xA0
_EXTENSIONS_TAG: Final = 0xA3
_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")
"""The identifier 2.5.29.17."""
_NAME_KINDS: Final = {0x81: "email", 0x82: "DNS", 0x86: "URI"}
_ADDRESS_TAG: Final = 0x87
_LONG_LENGTH: Final = 0x80


@dataclass(frozen=True, slots=True, kw_only=True)
class _Element:
    """A DER element: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """`certificate` is in DER. Raises AuthenticationError if its subject cannot be read."""
    try:
        fields = list(_elements(next(_elements(next(_elements(certificate)).content)).content))
        has_version = fields[0].tag == _VERSION_TAG
        subject = fields[5 if has_version else 4]
        names = ["+".join(map(_attribute, _elements(one.content))) for one in _elements(subject.content)]
    except (IndexError, StopIteration, UnicodeDecodeError) as error:
        raise AuthenticationError("the certificate's subject cannot be read") from error
    return ",".join(reversed(names))


def alternative_names_of(certificate: bytes) -> frozenset[str]:
    """The subject's alternative names, like `DNS:localhost`. Raises AuthenticationError if they cannot be read."""
    try:
        fields = list(_elements(next(_elements(next(_elements(certificate)).content)).content))
        found: set[str] = set()
        for extensions in (next(_elements(one.content)) for one in fields if one.tag == _EXTENSIONS_TAG):
            for extension in _elements(extensions.content):
                kind, *_, value = _elements(extension.content)
                if kind.content == _ALTERNATIVE_NAMES:
                    found.update(map(_alternative_name, _elements(next(_elements(value.content)).content)))
    except (IndexError, StopIteration, ValueError) as error:
        raise AuthenticationError("the certificate's alternative names cannot be read") from error
    return frozenset(found)


def _alternative_name(element: _Element) -> str:
    if element.tag in _NAME_KINDS:
        return f"{_NAME_KINDS[element.tag]}:{element.content.decode('latin-1')}"
    if element.tag == _ADDRESS_TAG:
        return f"IP:{ipaddress.ip_address(element.content)}"
    return f"{element.tag & 0x1F}:{element.content.hex()}"


def _elements(data: bytes) -> Iterator[_Element]:
    position = 0
    while position < len(data):
        start, tag, length = position, data[position], data[position + 1]
        position += 2
        if length >= _LONG_LENGTH:
            count = length - _LONG_LENGTH
            length = int.from_bytes(data[position : position + count])
            position += count
        end = position + length
        if end > len(data):
            raise IndexError("an element is longer than the one that contains it")
        yield _Element(tag=tag, content=data[position:end], whole=data[start:end])
        position = end


def _attribute(element: _Element) -> str:
    kind, value = _elements(element.content)
    number = _dotted(kind.content)
    name = _NAMES.get(number)
    if name is None or value.tag not in _ENCODINGS:
        return f"{name or number}=#{value.whole.hex()}"
    return f"{name}={_escaped(value.content.decode(_ENCODINGS[value.tag]))}"


def _dotted(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _escaped(text: str) -> str:
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(inner)
    characters = "".join(f"\\{one}" if one in _ESCAPED else "\\00" if one == "\0" else one for one in inner)
    return "\\ " * before + characters + "\\ " * after
