import re
import sys

import pytest

from broker_core.handlers.registry import HANDLERS
from broker_core.protocol.api_table import ApiKey
from broker_core.protocol.served_versions import SERVED_VERSIONS, is_served

EACH = pytest.mark.parametrize("api_key", sorted(HANDLERS), ids=lambda key: ApiKey(key).label)


def card_of(api_key):
    return sys.modules[HANDLERS[api_key].__module__].__doc__


def test_every_served_request_has_a_handler_and_every_handler_is_served():
    assert set(HANDLERS) == set(SERVED_VERSIONS)


def test_each_api_has_its_own_module():
    modules = [handler.__module__ for handler in HANDLERS.values()]
    assert len(set(modules)) == len(modules)


@EACH
def test_a_module_is_named_after_its_api(api_key):
    module = HANDLERS[api_key].__module__.rpartition(".")[2]
    assert module.replace("_", "") == ApiKey(api_key).label.lower()


@EACH
def test_the_docstring_begins_with_name_key_and_served_versions(api_key):
    first = " ".join(card_of(api_key).split("\n\n")[0].split())
    found = re.match(r"(\w+) \((\d+)\)(?:, versions? (\d+)(?: (?:to|and) (\d+))?)?", first)
    assert found, first
    name, key, lowest, highest = found.groups()
    assert (name, int(key)) == (ApiKey(api_key).label, api_key)
    assert lowest is not None, first
    versions = [version for version in SERVED_VERSIONS[api_key] if is_served(api_key, version)]
    assert (int(lowest), int(highest or lowest)) == (versions[0], versions[-1])
