import time

import pytest

from chaos.chaos_run import ChaosRun


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_ten_minutes_of_faults_show_no_anomaly(tmp_path, capsys):
    run = ChaosRun(tmp_path / "cluster", seed=int(time.time()), say=print)
    run.for_minutes(10)
    assert run.anomalies == [], run.figures()
    assert len(run.faults.history) >= 15
