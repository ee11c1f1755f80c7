"""`streamlog migrate check` of a cluster that runs."""

import json

from support.cluster.tested_cluster import wait_for

from broker_core.cli.command_line import run


def test_a_check_of_a_cluster_says_what_the_next_step_waits_for(cluster, capsys):
    topic = cluster.make_topic(replicas=sorted(cluster.ids))

    def check(*words):
        status = run(["migrate", "check", "--bootstrap-server", cluster.bootstrap_servers, *words, "--json"])
        found = json.loads(capsys.readouterr().out)
        return status, {each["subject"]: each["verdict"] for each in found}

    away = max(cluster.ids)
    verdicts = check("--leaving", str(away))[1]
    assert verdicts["partitions"] == verdicts["quorum"] == verdicts["metadata.version"] == "ok"
    assert (verdicts["voters"], verdicts[f"node {away}"]) == ("not yet", "not yet")
    cluster.hit(away, "killed")
    cluster.wait_in_sync(topic, sorted(cluster.ids - {away}))
    # Brokers may be asked that have not heard of it yet.
    wait_for(lambda: {check()[1][subject] for subject in ("brokers", "partitions")} == {"not yet"})
    assert check()[0] == 1
    cluster.heal()
    cluster.wait_in_sync(topic, sorted(cluster.ids))
    wait_for(lambda: check()[1]["brokers"] == "ok")
