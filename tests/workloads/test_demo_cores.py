"""CPU quotas of both versions of control groups, as the kernel lays them out."""

import pytest

from workloads.demo.cores import quota


def written(root, cgroup, files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "cores"),
    [
        ("0::/a/b\n", {"a/cpu.max": "150000 100000\n", "a/b/cpu.max": "max 100000\n"}, 1.5),
        ("0::/gone\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/a\n", {"a/cpu.max": "max 100000\n"}, None),
        (
            "4:cpu,cpuacct:/a\n",
            {"cpu,cpuacct/a/cpu.cfs_quota_us": "100000", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"},
            1.0,
        ),
        ("4:cpu:/\n0::/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("4:cpuset:/a\n", {"cpuset/a/cpu.cfs_quota_us": "1", "cpuset/a/cpu.cfs_period_us": "100"}, None),
    ],
)
def test_the_tightest_quota_above_counts(tmp_path, cgroup, files, cores):
    assert quota(written(tmp_path, cgroup, files)) == cores


def test_where_nothing_can_be_read_there_is_no_quota(tmp_path):
    assert quota(tmp_path) is None
