import pytest

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.jaas_config import parse_jaas_config, parse_jaas_users

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("options", "username", "password"),
    [
        ('username="ann" password="s3cret"', "ann", "s3cret"),
        ("username='ann'   password=s3cret", "ann", "s3cret"),
        ('\n  password="a\\"b\\\\c;d"\n  username="x=y"\n', "x=y", 'a"b\\c;d'),
        ('username="" password="" tokenauth="true"', "", ""),
    ],
)
def test_username_and_password_are_read_with_any_quoting(options, username, password):
    login = parse_jaas_config(f"{SCRAM} required {options};")
    assert (login.username, login.password) == (username, password)
    assert login.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")


def test_the_plain_login_module_is_for_the_plain_mechanism():
    assert parse_jaas_config(f'{PLAIN} REQUIRED username="a" password="b" ;').mechanisms == ("PLAIN",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be of the form"),
        (f'{PLAIN} required username="a" password="topsecret"', "must be of the form"),
        (f'{PLAIN} required username="a" topsecret;', "must have only name"),
        (f'{PLAIN} required username="topsecret;', "must have only name"),
        (f'{PLAIN} required username="a";', "has no password"),
        (f'{PLAIN} required password="topsecret";', "has no username"),
        ('com.sun.security.auth.module.Krb5LoginModule required x="topsecret";', "has the login module com.sun"),
    ],
)
def test_errors_do_not_contain_the_secret(text, said):
    with pytest.raises(InvalidConfigError, match=said) as caught:
        parse_jaas_config(text)
    assert "topsecret" not in str(caught.value)


def test_the_repr_has_no_password():
    assert "s3cret" not in repr(parse_jaas_config(f'{PLAIN} required username="a" password="s3cret";'))


def test_one_setting_holds_all_plain_users_of_a_broker():
    text = f'{PLAIN} required username="admin" password="x" user_admin="x" user_my-app.1="y;z" user_empty="";'
    assert parse_jaas_users(text) == {"admin": "x", "my-app.1": "y;z", "empty": ""}
    assert parse_jaas_users(f"{PLAIN} required;") == {}


@pytest.mark.parametrize(
    ("text", "said"), [(f'{PLAIN} required user_a="topsecret"', "must be of the form"), (f"{SCRAM} required;", "Scram")]
)
def test_errors_about_broker_users_do_not_contain_passwords(text, said):
    with pytest.raises(InvalidConfigError, match=said) as caught:
        parse_jaas_users(text)
    assert "topsecret" not in str(caught.value)
