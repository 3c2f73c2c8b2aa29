"""Loading settings: file, environment, defaults, removed settings, and the errors."""

import logging
from dataclasses import fields

import pytest

from gpuq.errors import BadSettings
from gpuq.settings import GROUPS, REMOVED, Worker, load, setting_fields, unknown_variables, variable


@pytest.fixture
def home(tmp_path):
    return {"GPUQ_HOME": str(tmp_path)}


def test_load_without_file_gives_defaults(home, tmp_path):
    settings = load(home)
    assert settings.redis_url is None
    assert settings.database_url == f"sqlite:///{tmp_path}/gpuq.db"
    assert settings.effective_redis_url == f"unix://{tmp_path}/run/redis.sock"


def test_environment_overrides_file(home, tmp_path):
    (tmp_path / "config.toml").write_text('[admission]\nmax_slowdown = 1.2\n[api]\nallowed_hosts = ["a.example"]\n')
    assert load(home).admission.max_slowdown == 1.2
    settings = load({**home, "GPUQ_ADMISSION_MAX_SLOWDOWN": "1.3", "GPUQ_WORKER_HOOK": "false", "GPUQ_API_PORT": "0"})
    assert (settings.admission.max_slowdown, settings.worker.hook, settings.api.port) == (1.3, False, 0)
    assert settings.api.allowed_hosts == ("a.example",)


def test_redis_and_database_url_come_from_environment(home):
    settings = load({**home, "GPUQ_REDIS_URL": "redis://h/0", "GPUQ_DATABASE_URL": "postgresql://h/d"})
    assert (settings.effective_redis_url, settings.database_url) == ("redis://h/0", "postgresql://h/d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[admision]\n", "admision"),
        ("[admission]\nmax_slowdwn = 1\n", "max_slowdwn"),
        ("[admission]\nmax_slowdown = 'fast'\n", "max_slowdown"),
        ("admission = 3\n", "admission"),
        ("[admission\n", "config.toml"),
        ("[admission]\nresidents_per_device = -3\n", "`residents_per_device` under .admission. to -3; .* at least 1"),
        ("[admission]\nmemory_headroom = 7.0\n", "to 7.0; it must be a number of at least 0 and below 1"),
        ("[admission]\nmax_slowdown = 0.2\n", "to 0.2; it must be a number from 1 to 5"),
        ("[admission]\npatience_s = inf\n", "to inf"),
        ("[admission]\npatience_s = nan\n", "to nan"),
        ("[learning]\nquantile = 4\n", "to 4; it must be a number of at least 0.5 and below 1"),
        ("[worker]\nhost = 'has space'\n", "to 'has space'; it must be a text of 1 to 64 letters"),
        ("[worker]\nsample_every_s = 30\n", "less than twice `sample_every_s`"),
        ("[devices]\nbackend = 'cuda'\n", 'one of "auto", "nvml", "cpu"'),
        ("[devices]\ncpu_memory_fraction = 0\n", "above 0 and at most 1"),
        ("[devices]\ncpu_memory_fraction = 1.5\n", "above 0 and at most 1"),
        ("[devices]\ncpu_count = 0\n", "at least 1"),
        ("[devices]\nmps_thread_pct = 101\n", "from 0 to 100"),
        ("[api]\nport = 65536\n", "from 0 to 65535"),
        ("[api]\nallowed_hosts = ['http://gpu.lab/']\n", "list of texts that are host names"),
        ("[api]\nallowed_hosts = 'gpu.lab'\n", "list of texts"),
        ("[worker]\nhook = 'maybe'\n", "true or false"),
        ("[admision]\n", "Did you mean `admission`"),
        ("[admission]\nmax_slowdwn = 1\n", "Did you mean `max_slowdown`"),
    ],
)
def test_error_in_file_is_named(home, tmp_path, text, message):
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(BadSettings, match=message):
        load(home)


def test_error_in_variable_names_variable_and_setting(home):
    with pytest.raises(BadSettings, match=r"^GPUQ_API_PORT sets `port` under .api. to 'many'"):
        load({**home, "GPUQ_API_PORT": "many"})


def test_limits_of_ranges_are_as_described(home):
    load(home)
    for value, allowed in (("1", True), ("5", True), ("0.999", False), ("5.001", False)):
        try:
            load({**home, "GPUQ_ADMISSION_MAX_SLOWDOWN": value})
        except BadSettings:
            assert not allowed, value
        else:
            assert allowed, value
    assert load({**home, "GPUQ_ADMISSION_MEMORY_HEADROOM": "0"}).admission.memory_headroom == 0
    for value in ("1", "-0.1"):
        with pytest.raises(BadSettings, match="below 1"):
            load({**home, "GPUQ_ADMISSION_MEMORY_HEADROOM": value})


def test_unusable_host_name_of_the_machine_is_refused_with_its_source(home, monkeypatch):
    [host] = [setting for setting in fields(Worker) if setting.name == "host"]
    monkeypatch.setattr(host, "default_factory", lambda: "ann's laptop")
    with pytest.raises(BadSettings, match=r"The default sets `host` under .worker. to") as caught:
        load(home)
    assert caught.value.fix.startswith("Set `host` under [worker] in ")


@pytest.mark.parametrize("lost", [b"", bytes(8)])
def test_a_kept_name_that_the_disk_has_lost_is_said_and_not_blamed_on_the_settings(home, tmp_path, lost):
    (tmp_path / "host").write_bytes(lost)
    with pytest.raises(BadSettings, match=r"/host holds no name") as caught:
        load(home)
    assert "gpuq host list" in caught.value.fix
    (tmp_path / "config.toml").write_text('[worker]\nhost = "node2"\n')
    assert load(home).worker.host == "node2"


def test_unknown_variables_are_listed_with_the_closest_match():
    given = {"GPUQ_API_PROT": "1", "GPUQ_WORKER_XYZ": "", "GPUQ_HOME": "/x", "GPUQ_API_PORT": "1", "GPUQ_TOKEN": "t"}
    assert unknown_variables(given) == ["GPUQ_API_PROT (GPUQ_API_PORT?)", "GPUQ_WORKER_XYZ"]


@pytest.mark.parametrize(("group", "name"), REMOVED)
def test_removed_setting_is_ignored_with_a_warning(group, name, home, tmp_path, caplog):
    """In the file or in the environment, whatever its value: a gpuq that ran with it before an update starts with it after."""
    (tmp_path / "config.toml").write_text(f'[{group}]\n{name} = "any value"\n')
    with caplog.at_level(logging.WARNING, "gpuq.settings"):
        settings = load({**home, variable(group, name): "-1"})
    assert getattr(settings, group) == GROUPS[group]()
    in_environment, in_file = (record.getMessage() for record in caplog.records)
    assert in_environment.startswith(f"{variable(group, name)} is no setting any more and has no effect: ")
    assert in_file.startswith(f"`{name}` under [{group}] in {tmp_path}/config.toml is no setting any more")
    assert unknown_variables({variable(group, name): "1"}) == [], "load warns already"


def test_removed_settings_are_not_offered_as_settings():
    assert not [(group, name) for group, name in REMOVED if name in setting_fields(group)]


def test_nothing_is_warned_of_without_removed_settings(home, caplog):
    load(home)
    assert not caplog.records


def test_mps_and_jobs_of_several_users_exclude_each_other(home):
    """NVIDIA's MPS serves one user at a time: the jobs of two would wait for each other."""
    load({**home, "GPUQ_WORKER_RUN_AS": "submitter"})
    with pytest.raises(BadSettings, match="an MPS server serves one user") as raised:
        load({**home, "GPUQ_WORKER_RUN_AS": "submitter", "GPUQ_DEVICES_MPS": "true"})
    assert "time slicing" in raised.value.fix
