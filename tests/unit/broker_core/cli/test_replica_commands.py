"""`streamlog replica serve`: what it refuses before it asks anybody."""


def test_serve_needs_its_settings(streamlog):
    done = streamlog("replica", "serve", with_path=False)
    assert done.status == 2
    assert "--config FILE" in done.err


def test_serve_names_the_setting_that_is_missing(streamlog, tmp_path):
    config = tmp_path / "replica.properties"
    config.write_text("process.roles=broker\ncontroller.listener.names=CONTROLLER\n")
    done = streamlog("replica", "serve", "--config", str(config), with_path=False)
    assert done.status == 1
    assert "log.dir is missing" in done.err
