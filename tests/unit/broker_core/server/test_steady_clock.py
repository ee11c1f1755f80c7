import logging

from broker_core.server.steady_clock import SteadyClock


class TwoClocks:
    """Its two clocks; `pass_ms` moves both, `set_by` the wall clock alone."""

    def __init__(self):
        self.wall, self.monotonic = 1_000_000.0, 5_000.0
        self.clock = SteadyClock(wall_ms=lambda: self.wall, monotonic_ms=lambda: self.monotonic)

    def pass_ms(self, duration_ms):
        self.wall += duration_ms
        self.monotonic += duration_ms
        return self.clock.now_ms()

    def set_by(self, step_ms):
        self.wall += step_ms
        return self.clock.now_ms()


def test_the_clock_follows_an_advancing_wall_clock():
    machine = TwoClocks()
    assert [machine.pass_ms(10), machine.pass_ms(0), machine.pass_ms(5)] == [1_000_010, 1_000_010, 1_000_015]


def test_a_wall_clock_set_forward_is_followed_immediately():
    machine = TwoClocks()
    assert machine.set_by(3_600_000) == 4_600_000


def test_after_a_wall_clock_set_back_time_advances_at_half_speed_until_it_catches_up(caplog):
    machine = TwoClocks()
    with caplog.at_level(logging.WARNING):
        assert machine.set_by(-10_000) == 1_000_000
        assert [machine.pass_ms(1_000) for _ in range(3)] == [1_000_500, 1_001_000, 1_001_500]
    assert caplog.text.count("set back by 10000 ms") == 1
    assert machine.pass_ms(17_000) == 1_010_000, "here they meet"
    assert machine.pass_ms(1_000) == 1_011_000


def test_the_clock_never_goes_back():
    machine = TwoClocks()
    machine.set_by(-50)
    times = [machine.pass_ms(0.25) for _ in range(1_000)]
    assert times == sorted(times)
    assert times[-1] == 1_000_200


def test_the_default_clocks_are_the_systems():
    first = SteadyClock().now_ms()
    assert 1_700_000_000_000 < first <= SteadyClock().now_ms() + 1_000
