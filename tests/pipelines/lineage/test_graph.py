"""The order in which artifacts are told, whatever the ids within one execution."""

import itertools

import pytest

from pipelines.lineage.graph import Execution, Graph

Ports = dict[str, list[int]]


def execution(number: int, inputs: Ports, outputs: Ports) -> Execution:
    return Execution(
        id=number,
        type="Any",
        component="Any",
        pipeline=None,
        run=None,
        state="COMPLETE",
        started=None,
        ended=None,
        settings={},
        inputs=inputs,
        outputs=outputs,
    )


@pytest.mark.parametrize("ids", list(itertools.permutations([2, 3, 4])), ids=str)
def test_outputs_and_inputs_follow_their_names(ids):
    ports = {name: [number] for name, number in zip(("z", "a", "k"), ids, strict=True)}
    in_order = [ports[name][0] for name in ("a", "k", "z")]
    executions = {1: execution(1, {"raw": [1]}, ports), 2: execution(2, ports, {"model": [5]})}
    graph = Graph(dict.fromkeys(range(1, 6)), executions)
    assert graph.descendants(1) == [*in_order, 5]
    assert graph.sources(5) == in_order
