from datetime import timedelta

from broker_core.model.durations import milliseconds_of


def test_durations_convert_to_exact_milliseconds():
    for given in (-1, 0, 1, 999, 1_800_000, 2**31 - 1, 2**53 + 1):
        assert milliseconds_of(timedelta(milliseconds=given)) == given
