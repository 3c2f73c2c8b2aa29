from gpuq.split.graph import BlockGraph
from gpuq.split.llvm_text import Block


def graph(**successors):
    return BlockGraph({name: Block(name, successors=list(after)) for name, after in successors.items()})


def test_a_loop_is_dominated_by_its_head_and_leads_back_to_it():
    loop = graph(a="b", b="cd", c="b", d="")
    assert loop.order[0] == "a"
    assert loop.above == {"a": "a", "b": "a", "c": "b", "d": "b"}
    assert loop.before["b"] == ["a", "c"]
    assert loop.dominates("b", "d")
    assert not loop.dominates("c", "d")
    assert loop.reaches("b", "c", "a")
    assert not loop.reaches("d", "c", "b")


def test_where_two_ways_meet_neither_dominates():
    fork = graph(a="bc", b="d", c="d", d="", unreachable="d")
    assert fork.above["d"] == "a"
    assert "unreachable" not in fork.order
