from broker_core.object_log.tail_guess import MAX_WINDOW, TailGuess


def windows(*counts):
    """Before each look, and after the last one."""
    guess = TailGuess()
    found = [guess.window]
    for count in counts:
        guess.on_found(count)
        found.append(guess.window)
    return found


def test_a_look_after_none_that_found_commits_requests_one():
    assert windows(0, 0) == [1, 1, 1]


def test_a_look_after_two_that_found_commits_requests_as_many_as_both_found_and_one_that_ends_them():
    assert windows(1, 1, 3, 2, 0) == [1, 1, 2, 2, 3, 1]


def test_looks_that_find_commits_every_other_time_request_one():
    assert windows(1, 0, 1, 0, 5, 0) == [1] * 7


def test_a_window_has_a_bound():
    assert windows(MAX_WINDOW - 2, MAX_WINDOW - 1, MAX_WINDOW, 10**6)[2:] == [MAX_WINDOW - 1, MAX_WINDOW, MAX_WINDOW]
