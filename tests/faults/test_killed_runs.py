"""After SIGKILL at any time no partial dataset opens, and the next run is not affected.

`test_corruption` shows that an undisturbed run has every input exactly once, so a run with the same
bytes has them too.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown import REPOSITORY
from tests.e2e import engines
from tests.faults.conftest import STEPS, Undisturbed
from tests.faults.counts import long, some_or_many
from tests.faults.engine import Engine
from tests.faults.outputs import check_not_half, check_whole

LONG = 100  # kills per component
LONG_ON_CLUSTERS = 10


def count_kill(
    plain: Undisturbed, engine: Engine, uri: Path, moment: float, again: int = 1, **how: Any
) -> bool:
    """Kill a run and repeat it; return whether the kill came before the end of the first run."""
    killed = plain.run(engine, uri, kill_after=moment, **how)
    assert killed.left == () or how["beam_args"]  # workers of a cluster finish their tasks
    check_not_half(uri, plain.content)
    last = plain.run(engine, uri, processes=again, beam_args=how["beam_args"])
    assert last.error == "", moment
    check_whole(uri, plain.content, plain.folders)
    return killed.status == -9


@some_or_many(0, LONG)
@pytest.mark.parametrize("step", STEPS)
def test_killed_run_leaves_no_trace(undisturbed, engine, tmp_path, step, count, chance):
    """Kill runs at random times; `test_refused_calls` kills at each system call."""
    kills, plain = 0, undisturbed[step]
    while kills < count:
        processes, again = chance.choice([1, 2]), chance.choice([1, 2])
        how = {"processes": processes, "whole_group": chance.random() < 0.5, "beam_args": ()}
        moment = chance.uniform(0, plain.seconds[processes])
        kills += count_kill(plain, engine, tmp_path / str(kills) / "out", moment, again, **how)


@pytest.fixture(scope="module", params=["dask", "prism"])
def cluster(request, tmp_path_factory) -> Iterator[list[str]]:
    """Yield Beam's arguments for an engine with separate processes."""
    if request.param == "dask":
        with engines.dask() as arguments:
            yield arguments
        return
    binary = os.environ.get("TFX_SHARDS_PRISM", "")
    if not binary:
        pytest.skip("TFX_SHARDS_PRISM is not set: make test-prism builds Prism, and sets it")
    folder = tmp_path_factory.mktemp("prism")
    with (
        engines.worker_pool(folder, python_path=REPOSITORY) as pool,
        engines.prism(binary, folder) as endpoint,
    ):
        yield engines.portable(endpoint, pool)


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS)
def test_killed_run_on_a_cluster_leaves_no_trace(
    undisturbed, engine, cluster, tmp_path, step, chance
):
    """Kill only the submitting process: the workers finish their tasks."""
    plain = undisturbed[step]
    whole = plain.run(engine, tmp_path / "whole" / "out", beam_args=cluster)
    assert whole.error == ""
    check_whole(tmp_path / "whole" / "out", plain.content, plain.folders)
    kills = 0
    while kills < long(LONG_ON_CLUSTERS):
        uri, moment = tmp_path / str(kills) / "out", chance.uniform(0, whole.seconds)
        kills += count_kill(plain, engine, uri, moment, beam_args=cluster)
