"""How the time of pilots is divided."""

from benchmarks.slurm.held import held


def test_the_time_of_pilots_is_divided_without_a_rest() -> None:
    pilots = {"a": (100.0, 200.0), "b": (100.0, 130.0)}
    jobs = [("a", (110.0, 130.0)), ("a", (120.0, 140.0)), ("a", (125.0, 135.0)), ("a", (150.0, 170.0))]
    found = held(pilots, jobs)
    assert (found.before_s, found.busy_s, found.between_s, found.after_s) == (10.0, 50.0, 10.0, 60.0)
    assert found.before_s + found.busy_s + found.between_s + found.after_s == sum(
        end - at for at, end in pilots.values()
    )
    assert found.job_s == 70.0
