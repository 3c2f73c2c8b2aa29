"""Settings: the file, the environment over it, and what is wrong said with the fix."""

import pytest

from gpuq.errors import BadSettings
from gpuq.settings import load


@pytest.fixture
def home(tmp_path):
    return {"GPUQ_HOME": str(tmp_path)}


def test_without_a_file_everything_has_a_default(home, tmp_path):
    settings = load(home)
    assert settings.redis_url is None
    assert settings.database_url == f"sqlite:///{tmp_path}/gpuq.db"
    assert settings.effective_redis_url == f"unix://{tmp_path}/run/redis.sock"


def test_the_environment_wins_over_the_file(home, tmp_path):
    (tmp_path / "config.toml").write_text('[admission]\nmax_slowdown = 1.2\n[api]\nallowed_hosts = ["a.example"]\n')
    assert load(home).admission.max_slowdown == 1.2
    settings = load({**home, "GPUQ_ADMISSION_MAX_SLOWDOWN": "1.3", "GPUQ_WORKER_HOOK": "false", "GPUQ_API_PORT": "0"})
    assert (settings.admission.max_slowdown, settings.worker.hook, settings.api.port) == (1.3, False, 0)
    assert settings.api.allowed_hosts == ("a.example",)


def test_named_servers_are_taken(home):
    settings = load({**home, "GPUQ_REDIS_URL": "redis://h/0", "GPUQ_DATABASE_URL": "postgresql://h/d"})
    assert (settings.effective_redis_url, settings.database_url) == ("redis://h/0", "postgresql://h/d")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[admision]\n", "admision"),
        ("[admission]\nmax_slowdwn = 1\n", "max_slowdwn"),
        ("[admission]\nmax_slowdown = 'fast'\n", "max_slowdown"),
        ("admission = 3\n", "admission"),
        ("[admission\n", "config.toml"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(home, tmp_path, text, said):
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(BadSettings, match=said):
        load(home)


def test_a_variable_that_is_no_number_is_named(home):
    with pytest.raises(BadSettings, match="port"):
        load({**home, "GPUQ_API_PORT": "many"})
