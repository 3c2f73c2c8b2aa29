from gpuq.core.state.actions import Lend, Reclaim
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from tests.core.scheduling.test_loans import BORROWER, lent, playing


def test_a_loan_that_may_not_be_is_refused() -> None:
    play = playing(lend_cores=2)
    assert lent(play) == (0, 1)
    for cores in ((0, 1), (0, 1, 2), (7,)):
        assert not apply(play.state, Lend(BORROWER, cores), play.now)
    assert not apply(play.state, Lend(AttemptId(JobId(9), 1), (2,)), play.now)
    assert apply(play.state, Lend(BORROWER, (1, 2)), play.now)
    assert lent(play) == (1, 2)


def test_only_what_is_lent_can_be_reclaimed() -> None:
    play = playing()
    assert not apply(play.state, Reclaim(BORROWER, (7,)), play.now)
    assert apply(play.state, Reclaim(BORROWER, (0, 7)), play.now)
    assert lent(play) == (1, 2)
