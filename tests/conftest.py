"""Fixtures and options that every suite shares."""

import pytest
from hypothesis import settings

# A busy machine is no failure: what a property costs is judged by the benches.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


def pytest_addoption(parser):
    parser.addoption(
        "--kafka",
        choices=("ours", "real"),
        default="ours",
        help="which broker the suites of other people's clients talk to; real needs Java and Maven",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """The whole default run takes two processes, file by file, where pytest-xdist is installed: half of it is waiting.
    Not if something was chosen (files, names, marks, `-n`, `-s`, `--pdb`, a real Kafka), nor inside of such a process.
    """
    option = config.option
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and option.markexpr in config.getini("addopts")
    is_plain = not option.keyword and option.capture != "no" and not option.usepdb and option.kafka == "ours"
    if is_whole and is_plain and getattr(option, "numprocesses", 0) is None and not hasattr(config, "workerinput"):
        # In order: what takes long comes first, and the end is shared by thousands that are done at once.
        option.numprocesses, option.dist, option.loadscopereorder = 2, "loadfile", False
