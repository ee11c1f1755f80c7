import re

import pytest

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.store_settings import SECRET_OPTIONS, is_object_url, parse_store_settings

URLS = ("s3://b/p", "gs://b/p", "az://c/p", "objects:///f")
REDACTED_BY_SPARK_4_0 = re.compile("(?i)secret|password|token|access[.]?key")
"""The default of spark.redaction.regex in Spark 4.0; later ones match more."""


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://b/p/q", ("s3", "b", "p/q")),
        ("s3a://b/p/q/", ("s3", "b", "p/q")),
        ("S3://b//p", ("s3", "b", "p")),
        ("gs://b/p", ("gs", "b", "p")),
        ("az://c/p", ("az", "c", "p")),
        ("abfss://c@acc.dfs.core.windows.net/p/q", ("az", "c", "p/q")),
        ("objects:///mnt/a%20b/log/", ("objects", "", "/mnt/a b/log")),
    ],
)
def test_a_url_gives_provider_bucket_and_prefix(url, expected):
    settings = parse_store_settings(url)
    assert (settings.provider, settings.bucket, settings.prefix) == expected
    assert is_object_url(url)


@pytest.mark.parametrize("path", ["/data/log", "file:///x", "relative", "http://h/x", "C:\\log", ""])
def test_other_paths_are_not_object_urls(path):
    assert not is_object_url(path)


def test_a_hadoop_url_gives_its_account():
    assert parse_store_settings("abfss://c@acc.dfs.core.windows.net/p").config == {"account_name": "acc"}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://", "no bucket"),
        ("s3://b", "its own prefix, such as s3://b/log"),
        ("s3://b/p?versionId=1", "options"),
        ("s3://key:topsecret@b/p", "options"),
        ("s3://user@b/p", "only hold a bucket"),
        ("objects://host/p", "objects:///an/absolute/path"),
        ("objects:///", "objects:///an/absolute/path"),
        ("ftp://h/x", "s3://, s3a://"),
        ("s3://topsecret@b/p", "s3://b/p may only hold a bucket"),
        ("abfss://c:topsecret@acc.dfs.core.windows.net/p", "options"),
        ("s3://[b/p", "[ or ]"),
        ("objects:///data/a\nb", "a line end"),
        ("objects:///data/a%00b", "a line end"),
    ],
)
def test_a_url_without_bucket_or_prefix_is_refused(url, words):
    with pytest.raises(InvalidConfigError) as caught:
        parse_store_settings(url)
    assert words in str(caught.value) and "topsecret" not in str(caught.value)


def test_options_are_translated_for_the_client_library():
    settings = parse_store_settings(
        "s3://b/p",
        {
            "object.region": "eu-central-1",
            "object.endpoint": "http://h:1",
            "object.allow.http": "TRUE",
            "object.path.style": "false",
            "object.timeout.ms": "7",
            "object.max.retries": "0",
        },
    )
    assert settings.config == {"region": "eu-central-1", "endpoint": "http://h:1"}
    assert (settings.allow_http, settings.path_style, settings.timeout_ms, settings.max_retries) == (True, False, 7, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"object.regoin": "x"}, "Did you mean object.region?"),
        ({"object.sas.token": "x"}, "object.sas.token is for az://, not for s3://"),
        ({"object.xyzzyqqqqqq": "x"}, "the options of s3://"),
        ({"object.account.key": "x"}, "Unknown option object.account.key. Use object.account.access.key"),
        ({"object.service.account.key": "x"}, "Use object.service.account.secret.key, whose value Spark redacts"),
        ({"object.timeout.ms": "0"}, "object.timeout.ms: it must be a whole number from 1"),
        ({"object.timeout.ms": "1s"}, "object.timeout.ms"),
        ({"object.max.retries": "-1"}, "from 0"),
        ({"object.allow.http": "yes"}, "true or false"),
        *(({"object.endpoint": text}, "such as https://host:9000") for text in ("host:9000", "", " ", "https://")),
        *(
            ({"object.endpoint": f"https://{text}"}, "such as https://host:9000")
            for text in (
                "user:topsecret@host",
                "topsecret@host/",
                "host/?sig=topsecret",
                "host?sig=topsecret",
                "host#x",
            )
        ),
        ({"object.access.key.id": "key\n"}, "object.access.key.id: it contains a line end"),
    ],
)
def test_an_invalid_option_is_named(options, words):
    with pytest.raises(InvalidConfigError) as caught:
        parse_store_settings("s3://b/p", options)
    assert words in str(caught.value) and "topsecret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "name"), [("s3://b/p", "endpoint"), ("az://c/p", "endpoint"), ("gs://b/p", "base_url")]
)
def test_an_endpoint_is_named_as_the_library_does_for_each_provider(url, name):
    assert parse_store_settings(url, {"object.endpoint": "https://h"}).config == {name: "https://h"}


def test_the_json_of_a_service_account_may_have_line_ends():
    key = '{\n  "type": "service_account"\n}'
    assert parse_store_settings("gs://b/p", {"object.service.account.secret.key": key}).config == {
        "service_account_key": key
    }


def options_of(url):
    with pytest.raises(InvalidConfigError, match="the options of") as caught:
        parse_store_settings(url, {"xyzzy": ""})
    return re.findall(r"object\.[a-z.]+[a-z]", str(caught.value))


def test_spark_redacts_each_option_that_holds_a_secret():
    assert len(SECRET_OPTIONS) >= 6
    assert [name for name in SECRET_OPTIONS if not REDACTED_BY_SPARK_4_0.search(name)] == []


def test_no_option_sounds_like_a_secret_and_is_none():
    sounds = re.compile("secret|password|token|key|credential|signature")
    names = {name for url in URLS for name in options_of(url)}
    assert {name for name in names if sounds.search(name)} == names & SECRET_OPTIONS == SECRET_OPTIONS


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("name", [*sorted(SECRET_OPTIONS), "object.account.key", "object.service.account.key"])
def test_no_refusal_repeats_a_secret(url, name):
    for options in ({name: "topsecret"}, {name: "topsecret\x7f"}, {name: "topsecret", "object.timeout.ms": "x"}):
        try:
            settings = parse_store_settings(url, options)
            settings.checked({})
        except InvalidConfigError as refusal:
            assert "topsecret" not in str(refusal)
        else:
            assert "topsecret" not in repr(settings) and settings.secrets == (options[name],)


def test_the_repr_has_no_secret():
    secrets = {
        "object.secret.access.key": "topsecret1",
        "object.session.token": "topsecret2",
        "object.access.key.id": "topsecret3",
    }
    settings = parse_store_settings("s3://b/p", secrets)
    assert "topsecret" not in repr(settings) and "topsecret" not in settings.url
    assert set(settings.secrets) == set(secrets.values())


@pytest.mark.parametrize(
    ("url", "options", "environment", "allowed"),
    [
        ("s3://b/p", {}, {}, False),
        ("s3://b/p", {}, {"AWS_ALLOW_HTTP": "true"}, True),
        ("s3://b/p", {}, {"AWS_ALLOW_HTTP": "1"}, True),
        ("s3://b/p", {}, {"AWS_ALLOW_HTTP": "false"}, False),
        ("s3://b/p", {}, {"AZURE_ALLOW_HTTP": "true"}, False),
        ("az://b/p", {}, {"AZURE_ALLOW_HTTP": "True"}, True),
        ("gs://b/p", {}, {"GOOGLE_ALLOW_HTTP": "true"}, True),
        ("s3://b/p", {"object.allow.http": "true"}, {}, True),
        ("s3://b/p", {"object.allow.http": "false"}, {"AWS_ALLOW_HTTP": "true"}, False),
    ],
)
def test_an_unprotected_endpoint_is_allowed_by_the_option_or_by_the_librarys_variable(
    url, options, environment, allowed
):
    settings = parse_store_settings(url, {"object.endpoint": "http://h"} | options)
    if allowed:
        assert settings.checked(environment).allow_http is True
    else:
        with pytest.raises(InvalidConfigError, match=r"object\.allow\.http to true"):
            settings.checked(environment)


@pytest.mark.parametrize(
    ("url", "options", "environment", "missing"),
    [
        ("s3://b/p", {"object.access.key.id": "a"}, {}, "object.secret.access.key"),
        ("s3://b/p", {"object.access.key.id": "a"}, {"AWS_SECRET_ACCESS_KEY": "s"}, None),
        ("s3://b/p", {"object.secret.access.key": "s"}, {}, "object.access.key.id"),
        ("s3://b/p", {"object.session.token": "t"}, {}, "object.access.key.id"),
        ("s3://b/p", {"object.access.key.id": "a", "object.secret.access.key": "s"}, {}, None),
        ("s3://b/p", {}, {}, None),
        ("az://b/p", {"object.account.access.key": "k"}, {}, "object.account.name"),
        ("az://b/p", {"object.sas.token": "k"}, {}, "object.account.name"),
        ("az://b/p", {"object.sas.token": "k"}, {"AZURE_STORAGE_ACCOUNT_NAME": "n"}, None),
        ("abfss://c@account.dfs.core.windows.net/p", {"object.account.access.key": "k"}, {}, None),
    ],
)
def test_half_of_a_credential_names_the_option_of_the_other_half(url, options, environment, missing):
    settings = parse_store_settings(url, options)
    if missing is None:
        assert settings.checked(environment).config == settings.config
    else:
        with pytest.raises(InvalidConfigError, match=f"is given without {missing}") as caught:
            settings.checked(environment)
        assert caught.value.setting == missing
