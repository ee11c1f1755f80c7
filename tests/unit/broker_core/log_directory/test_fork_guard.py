import os

from broker_core.log_directory.fork_guard import watch_for_fork


class Owner:
    def __init__(self):
        self.reset_count = 0
        watch_for_fork(self)

    def reset_after_fork(self):
        self.reset_count += 1


def test_owners_are_reset_in_the_child_and_not_in_the_parent():
    owners = [Owner(), Owner()]
    child = os.fork()
    if child == 0:
        os._exit(sum(owner.reset_count for owner in owners))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert [owner.reset_count for owner in owners] == [0, 0]


def test_a_collected_owner_is_skipped():
    Owner()
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
