"""Adding to a list setting and taking from it (KIP-339), as Kafka does it with the text that is stored.

    appended("delete", "compact") == "delete,compact"
    subtracted(" delete , compact ", "delete") == " delete , compact "

Items are compared as they were typed, with their blanks; only the value that results is parsed. Each subtracted item
removes one equal item.
"""

from __future__ import annotations


def appended(current: str, given: str) -> str:
    items = _items(current)
    for item in _java_split(given):
        if item not in items:
            items.append(item)
    return ",".join(items)


def subtracted(current: str, given: str) -> str:
    items = _items(current)
    for item in _java_split(given):
        if item in items:
            items.remove(item)
    return ",".join(items)


def _items(current: str) -> list[str]:
    return [item for item in current.split(",") if item]


def _java_split(text: str) -> list[str]:
    """String.split drops empty items at the end, except of an empty text."""
    return text.rstrip(",").split(",") if text.strip(",") or not text else []
