from uuid import UUID

from broker_core.group.topic_view import TopicFacts, TopicView

A, B = UUID(int=1), UUID(int=2)


def test_the_world_shows_topics_as_of_the_last_refresh():
    topics = {"t": TopicFacts(A, 3)}
    view = TopicView(lambda: topics)
    topics["u"] = TopicFacts(B, 1)
    assert list(view.names()) == ["t"]
    assert view.refresh()
    assert view.ids_of(["t", "u", "missing"]) == {A, B}
    assert view.partition_counts([A, B]) == {A: 3, B: 1}
    assert (view.name_of(B), view.id_of("u")) == ("u", B)
    assert (view.version, view.grown_in) == (2, 2)
    assert not view.refresh()
    del topics["u"]
    assert view.refresh()
    assert (view.version, view.grown_in) == (3, 2)
    assert (view.name_of(B), view.id_of("u")) == (None, None)


def test_the_hash_changes_when_a_topic_is_created_extended_or_recreated():
    topics = {}
    view = TopicView(lambda: topics)
    hashes = [view.hash_of(["t"])]
    for facts in (TopicFacts(A, 1), TopicFacts(A, 2), TopicFacts(B, 2)):
        topics["t"] = facts
        view.refresh()
        hashes.append(view.hash_of(["t"]))
    assert hashes[0] == 0
    assert len(set(hashes)) == 4
    topics["u"] = TopicFacts(A, 1)
    view.refresh()
    assert view.hash_of(["t"]) == hashes[-1]
    assert view.hash_of(["u", "t", "missing"]) == view.hash_of(["t", "u"]) != hashes[-1]
