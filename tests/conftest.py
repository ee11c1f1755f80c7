"""Fixtures and options that every suite shares."""

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
