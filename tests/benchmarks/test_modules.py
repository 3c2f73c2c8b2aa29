"""Benchmarks run seldom, so a module that was moved or renamed would go unnoticed."""

import pkgutil
from importlib import import_module

import benchmarks


def test_every_benchmark_can_be_imported() -> None:
    found = [module.name for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]
    names = [name for name in found if not name.endswith("__main__")]

    assert "benchmarks.slowdown" in names
    for name in names:
        import_module(name)
