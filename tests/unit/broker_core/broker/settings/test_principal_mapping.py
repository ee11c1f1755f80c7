"""Examples of KIP-371 and of Kafka's documentation."""

import pytest

from broker_core.broker.settings.principal_mapping import parse_principal_mapping
from broker_core.model.exceptions import AuthenticationError, InvalidConfigError

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("cn=kafka1,ou=SME,dc=mycp,dc=com", "KAFKA1"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_matching_rule_gives_the_name(subject, name):
    assert parse_principal_mapping(RULES).name_of(subject) == name


def test_without_rules_the_subject_is_the_name():
    assert parse_principal_mapping("").name_of("CN=ann") == "CN=ann"


def test_without_a_matching_rule_the_certificate_is_refused():
    with pytest.raises(AuthenticationError, match="CN=ann"):
        parse_principal_mapping("RULE:^OU=(.*)$/$1/").name_of("CN=ann")


def test_slashes_and_dollars_can_be_escaped():
    assert parse_principal_mapping(r"RULE:^CN=a\/(.*)$/\$$1\//").name_of("CN=a/b") == "$b/"


def test_a_rule_must_match_the_whole_subject():
    assert parse_principal_mapping("RULE:CN=a/x/,DEFAULT").name_of("CN=ab") == "CN=ab"


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("default", "is not a rule"),
        ("RULE:^CN=(.*)$/$1", "is not a rule"),
        ("DEFAULT RULE:a/b/", "is not a rule"),
        ("RULE:^CN=(.*$/$1/", "is not a regular expression"),
        ("RULE:^CN=(.*)$/$2/", "refers to group 2"),
    ],
)
def test_an_invalid_rule_is_refused(rules, said):
    with pytest.raises(InvalidConfigError, match=said):
        parse_principal_mapping(rules)
