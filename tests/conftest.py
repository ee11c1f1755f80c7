"""Fixtures that every suite shares."""

from hypothesis import settings

# A busy machine is no failure: what a property costs is judged by the benches.
settings.register_profile("house", deadline=None)
settings.load_profile("house")
