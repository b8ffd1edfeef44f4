"""SIGKILL at any moment: nothing half-written opens, and the next run is as if nothing had been.

That an undisturbed run has every input exactly once is what `test_corruption` shows of it, so a run
with the same bytes has them too.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import REPOSITORY
from tests.e2e import engines
from tests.faults.conftest import STEPS, Undisturbed
from tests.faults.counts import long, some_or_many
from tests.faults.engine import Engine
from tests.faults.outputs import check_not_half, check_whole

LONG = 100  # kills of each component
LONG_ON_CLUSTERS = 10


def kill_and_run_again(
    plain: Undisturbed, engine: Engine, folder: Path, chance: random.Random
) -> bool:
    """One kill; whether it came before the run ended."""
    uri = folder / "out"
    processes = chance.choice([1, 2])
    if processes == 1 and chance.random() < 0.5:  # at a call of the system, so in no time between
        number = chance.randrange(1, plain.calls + 1)
        killed = plain.run(engine, uri, refuse=(str(uri), number, "KILL"))
        assert killed.status == -9, number
    else:
        moment = chance.uniform(0, plain.seconds[processes])
        whole_group = chance.random() < 0.5
        killed = plain.run(
            engine, uri, processes=processes, kill_after=moment, whole_group=whole_group
        )
    assert killed.left == ()
    check_not_half(uri, plain.content)
    again = plain.run(engine, uri, processes=chance.choice([1, 2]))
    assert again.error == ""
    check_whole(uri, plain.content, plain.folders)
    return killed.status == -9


@some_or_many(0, LONG)
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_run_is_as_if_it_had_not_been(undisturbed, engine, tmp_path, step, count, chance):
    kills = 0
    while kills < count:
        folder = tmp_path / str(kills)
        folder.mkdir(exist_ok=True)
        kills += kill_and_run_again(undisturbed[step], engine, folder, chance)


@pytest.fixture(scope="module", params=["dask", "prism"])
def cluster(request, tmp_path_factory) -> Iterator[list[str]]:
    """Beam's arguments for an engine that has processes of its own."""
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
def test_a_run_killed_under_a_cluster_is_as_if_it_had_not_been(
    undisturbed, engine, cluster, tmp_path, step, chance
):
    """The workers are not killed: what one of them is at goes on."""
    plain = undisturbed[step]
    whole = plain.run(engine, tmp_path / "whole" / "out", beam_args=cluster)
    assert whole.error == ""
    check_whole(tmp_path / "whole" / "out", plain.content, plain.folders)
    kills = 0
    while kills < long(LONG_ON_CLUSTERS):
        uri = tmp_path / str(kills) / "out"
        moment = chance.uniform(0, whole.seconds)
        killed = plain.run(engine, uri, beam_args=cluster, kill_after=moment)
        check_not_half(uri, plain.content)
        again = plain.run(engine, uri, beam_args=cluster)
        assert again.error == "", moment
        check_whole(uri, plain.content, plain.folders)
        kills += killed.status == -9
