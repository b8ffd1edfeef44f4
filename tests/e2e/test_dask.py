"""The components on DaskRunner, with workers that are processes of their own: `make test-dask`."""

import dataclasses
import shutil
from collections.abc import Iterator

import pytest

from tests.e2e import engines
from trainer_utils.format import CorruptShardError

pytestmark = [pytest.mark.e2e, pytest.mark.dask]


@pytest.fixture(scope="module")
def dask() -> Iterator[list[str]]:
    with engines.dask() as arguments:
        yield arguments


def test_the_engine_gives_the_same_bytes(inputs, dask, tmp_path):
    engines.check_engine(inputs, dask, tmp_path)


def test_damage_is_named_as_in_process_and_nothing_is_left(inputs, dask, tmp_path):
    shutil.copytree(inputs.texts, tmp_path / "in")
    shard = sorted((tmp_path / "in/Split-train").iterdir())[3]
    with shard.open("r+b") as stream:
        stream.seek(-40, 2)
        stream.write(b"!")
    damaged = dataclasses.replace(inputs, out=tmp_path / "none")
    (tmp_path / "none").mkdir()
    (tmp_path / "in").rename(damaged.texts)
    with pytest.raises(CorruptShardError) as caught:
        engines.convert("balanced", damaged, tmp_path / "out", dask)
    assert caught.value.path == str(damaged.texts / shard.relative_to(tmp_path / "in"))
    assert list((tmp_path / "out").iterdir()) == []
