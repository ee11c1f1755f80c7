import pytest

from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import MAX_LONG, OptionReader


def options(**given):
    return OptionReader(given, role="source")


def refusal(reader):
    with pytest.raises(ConditionError, match="STREAMLOG_INVALID_OPTIONS") as error:
        reader.finish()
    return str(error.value)


def test_names_are_case_insensitive_and_values_keep_their_case():
    reader = options(SUBSCRIBE="Events")
    assert reader.text("subscribe") == "Events"
    reader.finish()


def test_all_complaints_are_reported_together():
    reader = options(minPartitions="0", failOnDataLoss="perhaps", unheard="of")
    reader.integer("minPartitions", minimum=1)
    reader.flag("failOnDataLoss", default=True)
    text = refusal(reader)
    assert "3 option(s) of the streamlog source" in text
    assert "minPartitions must be a whole number from 1" in text
    assert "failOnDataLoss must be true or false, not 'perhaps'" in text
    assert "unheard is not an option of the streamlog source" in text


def test_an_unknown_name_is_refused_with_the_nearest_known_name():
    reader = options(failOnDataLos="true")
    reader.flag("failOnDataLoss", default=True)
    assert "failOnDataLos is not an option of the streamlog source (did you mean failOnDataLoss?)" in refusal(reader)


@pytest.mark.parametrize(
    "name", ["path", "checkpointLocation", "queryName", "location", "owner", "provider", "option.subscribe"]
)
def test_options_that_spark_adds_are_ignored(name):
    options(**{name: "x"}).finish()


@pytest.mark.parametrize(("value", "number"), [("7", 7), (" 7 ", 7), ("+7", 7), (str(MAX_LONG), MAX_LONG)])
def test_whole_numbers_are_accepted_with_signs_and_leading_zeros(value, number):
    assert options(n=value).integer("n", minimum=1) == number


@pytest.mark.parametrize(
    "value", ["0", "-1", str(MAX_LONG + 1), "1.5", "1e3", "0x10", "", "seven", "٣", "1_000", "9" * 5000]
)
def test_a_value_that_is_not_a_whole_number_in_range_is_refused(value):
    reader = options(n=value)
    assert reader.integer("n", minimum=1) is None
    assert "n must be a whole number from 1" in refusal(reader)


def test_a_message_truncates_a_long_value():
    reader = options(n="9" * 5000)
    reader.integer("n", minimum=1)
    text = refusal(reader)
    assert "(5000 characters)" in text
    assert len(text) < 300


@pytest.mark.parametrize(("value", "flag"), [("true", True), ("TRUE", True), (" False ", False)])
def test_a_flag_is_true_or_false_in_any_case(value, flag):
    assert options(f=value).flag("f", default=not flag) is flag


def test_a_choice_ignores_case_and_returns_its_canonical_form():
    assert options(c="LATEST").choice("c", ("error", "latest"), default="error") == "latest"
    assert options().choice("c", ("error", "latest"), default="error") == "error"
    reader = options(c="newest")
    reader.choice("c", ("error", "latest"), default="error")
    assert "c must be one of error, latest, not 'newest'" in refusal(reader)


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [("15m", 900_000), ("5s", 5_000), ("250ms", 250), ("250", 250), ("2h", 7_200_000), ("1d", 86_400_000)],
)
def test_durations_have_sparks_units(value, milliseconds):
    assert options(d=value).duration_ms("d", default_ms=1) == milliseconds


@pytest.mark.parametrize("value", ["-5s", "5 weeks", "soon", "1.5s", "", "9" * 400 + "us", "9" * 5000])
def test_an_invalid_duration_is_refused(value):
    reader = options(d=value)
    assert reader.duration_ms("d", default_ms=1) == 1
    assert "d must be a duration" in refusal(reader)


def test_sizes_have_sparks_units():
    assert options(s="64MB").size_bytes("s", minimum=1) == 64 * 1024**2
    assert options().size_bytes("s", minimum=1) is None


@pytest.mark.parametrize("value", ["0", "-1m", "many", "", "8192p", "9" * 5000])
def test_a_size_outside_the_minimum_and_64_bits_is_refused(value):
    reader = options(s=value)
    assert reader.size_bytes("s", minimum=1) is None
    text = refusal(reader)
    assert "s must be a size of at least 1 byte, such as 64MB or 512k" in text
    assert len(text) < 300


def test_a_parsers_error_becomes_a_complaint_with_the_options_name():
    def parse(value):
        if value == "bad":
            raise ValueError("it is bad")
        return value.upper()

    assert options(x="good").parsed("x", parse) == "GOOD"
    assert options().parsed("x", parse) is None
    reader = options(x="bad")
    assert reader.parsed("x", parse) is None
    assert "x: it is bad" in refusal(reader)


def test_the_target_is_an_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert options(path="log").log_target().path == str(tmp_path / "log")
    assert options(path=f"{tmp_path}/a/../log/").log_target() == options(path=f"file:{tmp_path}/log").log_target()
    assert options(path=f"file://{tmp_path}/a%20b").log_target().path == f"{tmp_path}/a b"


def test_a_target_on_object_storage_shows_no_secrets():
    target = options(**{"path": "s3://bucket/log", "object.secret.access.key": "hunter2"}).log_target()
    assert target.objects is not None and not target.is_directory
    assert dict(target.objects.settings) == {"object.secret.access.key": "hunter2"}
    assert str(target) == "s3://bucket/log"
    assert "hunter2" not in repr(target)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no options arrived: Spark passes none for a table in its catalog"),
        ({"subscribe": "t"}, "path is missing"),
        ({"path": "hdfs://host/log"}, "is not a local directory"),
        ({"path": "hdfs://host/log"}, "the URL of an object store, or set kafka.bootstrap.servers to use brokers"),
        ({"path": "s3://bucket"}, "has no path in the bucket"),
        ({"path": "s3://bucket/log", "object.regoin": "x"}, "Did you mean object.region?"),
        ({"path": "/log", "object.region": "x"}, "object.region needs a log on object storage"),
        (
            {"path": "s3://b/log", "kafka.bootstrap.servers": "localhost:9092"},
            "a query uses one log; set only one of them",
        ),
        ({"path": "file://host/log"}, "refers to the machine host"),
        ({"paths": '["/a","/b"]'}, "a query reads one log"),
        ({"path": "/log", "kafka.bootstrap.servers": "localhost:9092"}, "a query uses one log; set only one of them"),
        ({"kafka.bootstrap.servers": "localhost"}, "kafka.bootstrap.servers must be host:port"),
    ],
)
def test_an_invalid_target_is_refused(given, said):
    reader = OptionReader(given, role="source")
    reader.text("subscribe")
    reader.log_target()
    assert said in refusal(reader)
