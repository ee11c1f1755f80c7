"""Compares two transcripts of a scenario."""

from __future__ import annotations

import json
from dataclasses import dataclass

from differential.excuses import forgiven, is_excused, without_excused

SHOWN_CHARACTERS = 1500


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first field in which two answers to one request differ."""

    scenario: str
    label: str
    path: str
    expected: object
    found: object
    expected_answer: object
    found_answer: object

    def __str__(self):
        return (
            f"{self.scenario}, {self.label}\n  {self.path or 'the answer'}: Kafka {shown(self.expected)}, "
            f"ours {shown(self.found)}\n    Kafka answers {shown(self.expected_answer)}\n"
            f"    ours answers  {shown(self.found_answer)}"
        )


def shown(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"


def differences(scenario, expected_notes, found_notes):
    """One for each request whose answers differ; a transcript that ends early is a difference too."""
    listed = []
    for number in range(max(len(expected_notes), len(found_notes))):
        left, right = (notes[number] if number < len(notes) else None for notes in (expected_notes, found_notes))
        label = (left or right).label
        if left is None or right is None or left.label != right.label:
            listed.append(_difference(scenario, label, ("", _whole(left), _whole(right)), left, right))
            return listed
        api = label.split(". ", 1)[-1].split(" ", 1)[0]
        if is_excused(api, label):
            continue
        expected, found = (without_excused(api, note.answer) for note in (left, right))
        first = first_difference(forgiven(expected, found), found)
        if first is not None:
            listed.append(_difference(scenario, label, first, left, right))
    return listed


def _whole(note):
    return "nothing any more" if note is None else f"{note.label}: {shown(note.answer)}"


def _difference(scenario, label, first, left, right):
    path, expected, found = first
    return Difference(
        scenario=scenario,
        label=label,
        path=path,
        expected=expected,
        found=found,
        expected_answer=left and left.answer,
        found_answer=right and right.answer,
    )


def first_difference(expected, found, path=""):
    """(path, one value, the other value), or None."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        pairs = [(f"{path}.{name}" if path else name, expected[name], found[name]) for name in expected]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = [(f"{path}[{n}]", *pair) for n, pair in enumerate(zip(expected, found, strict=True))]
    elif isinstance(expected, list) and isinstance(found, list):
        missing, surplus = ([one for one in a if one not in b] for a, b in ((expected, found), (found, expected)))
        return f"{path} ({len(expected)} and {len(found)} elements; those that only one has)", missing, surplus
    else:
        return None if expected == found and type(expected) is type(found) else (path, expected, found)
    return next((first for where, a, b in pairs if (first := first_difference(a, b, where)) is not None), None)
