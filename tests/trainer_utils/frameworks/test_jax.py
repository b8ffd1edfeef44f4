"""`jax_batches` with JAX itself: one process of several devices, and several processes."""

import json
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import trainer_utils
from tests.make import write_rows
from tests.trainer_utils.processes import free_ports
from trainer_utils import ConfigError, DatasetError
from trainer_utils.reading.batches import Batches

# Several devices, before JAX is imported for the first time.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
jax = pytest.importorskip("jax")

SETTINGS = {"batch_size": 8, "seed": 3, "features": ["id", "image"]}


def sharding(*names, shape=(4,)):
    mesh = jax.sharding.Mesh(
        np.array(jax.devices()).reshape(shape), ("data", "model")[: len(shape)]
    )
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*names))


@pytest.mark.parametrize("remainder", [None, "pad"])
def test_batches_equal_numpys_on_all_devices(numbered, remainder):
    chosen = {**SETTINGS, "remainder": remainder}
    expected = list(trainer_utils.iterate(numbered, **{**chosen, "remainder": remainder or "drop"}))
    found = list(trainer_utils.jax_batches(numbered, sharding=sharding("data"), **chosen))
    assert len(found) == len(expected)
    for ours, theirs in zip(expected, found, strict=True):
        assert [*ours] == [*theirs]
        for name, values in theirs.items():
            assert isinstance(values, jax.Array)
            assert len(values.sharding.device_set) == 4
            np.testing.assert_array_equal(np.asarray(values), ours[name])


@pytest.mark.parametrize("names", [("data",), ("data", "model"), (("data", "model"),), (None,)])
def test_a_mesh_of_two_dimensions_shards_batches(numbered, names):
    wanted = sharding(*names, shape=(2, 2))
    (ours, *_) = trainer_utils.iterate(numbered, **SETTINGS)
    (theirs, *_) = trainer_utils.jax_batches(numbered, sharding=wanted, **SETTINGS)
    assert theirs["image"].sharding.is_equivalent_to(wanted, 4)
    np.testing.assert_array_equal(np.asarray(theirs["image"]), ours["image"])
    np.testing.assert_array_equal(np.asarray(theirs["id"]), ours["id"])


def test_batches_work_in_jit_and_resume_from_a_token(numbered):
    chosen = {**SETTINGS, "features": "id", "repeat": 2}
    total = jax.jit(lambda ids: ids.sum())
    source = trainer_utils.jax_batches(numbered, **chosen)
    whole = [int(total(batch)) for batch in source]
    resumed = trainer_utils.jax_batches(numbered, **chosen, state=source.state(20))
    assert [int(total(batch)) for batch in resumed] == whole[20:]


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        ({"batch_size": None}, "batch_size"),
        ({"batch_size": 6}, "batch_size"),
        ({"remainder": "balance"}, "remainder"),
        ({"ragged": True}, "ragged"),
    ],
)
def test_batches_without_a_fixed_shape_are_refused(numbered, chosen, name):
    with pytest.raises(ConfigError, match=f"^{name}: "):
        trainer_utils.jax_batches(numbered, sharding=sharding("data"), **{**SETTINGS, **chosen})


def test_an_integer_too_large_for_jax_is_an_error(tmp_path):
    rows = ({"n": 2**31 - 9 + number} for number in range(16))
    uri = write_rows(tmp_path / "large", rows)
    batches = iter(trainer_utils.jax_batches(uri, "train", batch_size=8, shuffle=False))
    assert next(batches)["n"].tolist() == [*range(2**31 - 9, 2**31 - 1)]
    with pytest.raises(DatasetError, match="jax_enable_x64"):
        next(batches)


def test_64_bits_of_the_iterating_thread_are_kept(tmp_path):
    uri = write_rows(tmp_path / "large", ({"n": 2**40 + number} for number in range(16)))
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enable(True):
        found = [b["n"] for b in trainer_utils.jax_batches(uri, batch_size=8, shuffle=False)]
    assert [values.dtype for values in found] == [np.int64] * 2
    assert np.concatenate(found).tolist() == [*range(2**40, 2**40 + 16)]


def test_arrays_are_made_ahead_in_other_threads(numbered, monkeypatch):
    threads = []
    make = jax.make_array_from_process_local_data

    def note(*arguments):
        threads.append(threading.current_thread())
        return make(*arguments)

    monkeypatch.setattr(jax, "make_array_from_process_local_data", note)
    assert len(list(trainer_utils.jax_batches(numbered, **SETTINGS))) == 18
    assert len(threads) == 2 * 18
    assert threading.current_thread() not in threads


def test_pixels_reach_jax_without_a_copy_or_comparison(numbered, monkeypatch):
    made, taken = [], []
    read, make = Batches.batches, jax.make_array_from_process_local_data

    def note_read(self, epoch, steps):
        batches = read(self, epoch, steps)
        made.extend(batch["image"] for batch in batches)
        return batches

    def note_taken(sharding, values, shape):
        taken.append(values)
        return make(sharding, values, shape)

    monkeypatch.setattr(Batches, "batches", note_read)
    monkeypatch.setattr(jax, "make_array_from_process_local_data", note_taken)
    chosen = {**SETTINGS, "features": "image"}
    found = [np.asarray(batch) for batch in trainer_utils.jax_batches(numbered, **chosen)]
    assert {values.dtype for values in found} == {np.dtype(np.uint8)}
    assert len(made) == len(taken) == 18
    assert {*map(id, made)} == {*map(id, taken)}  # the very arrays that were decoded


def ids_of(make, uri, **given):
    chosen = {**SETTINGS, "features": "id", "remainder": "drop"}
    return [np.asarray(ids).tolist() for ids in make(uri, **chosen, **given)]


def test_a_rank_that_jax_does_not_know_reads_its_share(numbered, monkeypatch):
    ranks = [{"rank": rank, "world_size": 2} for rank in range(2)]
    shares = [ids_of(trainer_utils.jax_batches, numbered, **given) for given in ranks]
    assert shares == [ids_of(trainer_utils.iterate, numbered, **given) for given in ranks]
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    assert ids_of(trainer_utils.jax_batches, numbered) == shares[1]
    batches = trainer_utils.jax_batches(numbered, **SETTINGS)
    assert "rank 1 of 2" in repr(batches)
    assert {len(array.sharding.device_set) for array in next(iter(batches)).values()} == {4}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"rank": 0}, "world_size"),
        ({"world_size": 2}, "rank"),
        ({"rank": 0, "world_size": 3}, "batch_size"),
        ({"rank": 0, "world_size": 4}, "batch_size"),  # 2 rows on 4 devices
    ],
)
def test_a_rank_that_does_not_fit_is_refused(numbered, given, name):
    with pytest.raises(ConfigError, match=f"^{name}: "):
        trainer_utils.jax_batches(numbered, **SETTINGS, **given)


PROCESS = """
    import json, os, sys
    import jax
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(sys.argv[2], 2, int(sys.argv[3]))
    import numpy as np
    import trainer_utils
    found = []
    for batch in trainer_utils.jax_batches(sys.argv[1], batch_size=8, seed=3, features="id"):
        own = [shard.data.tolist() for shard in batch.addressable_shards]
        found.append([batch.shape[0], own])
    size, rank = jax.process_count(), jax.process_index()
    given = {"batch_size": 8, "seed": 3, "features": "id"}
    explicit = trainer_utils.jax_batches(sys.argv[1], rank=rank, world_size=size, **given)
    try:
        trainer_utils.jax_batches(sys.argv[1], rank=1 - rank, world_size=size, **given)
    except trainer_utils.ConfigError as error:
        refused = str(error)
    print(json.dumps([found, "tensorflow" in sys.modules, repr(explicit), refused]))
"""


def test_each_of_several_processes_reads_the_rows_of_its_devices(numbered):
    (port,) = free_ports(1)
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-c", textwrap.dedent(PROCESS), numbered, f"localhost:{port}"]
    started = [
        subprocess.Popen([*command, str(n)], env=environment, stdout=-1, stderr=-1, text=True)
        for n in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, 0], outputs
    results = [json.loads(output.splitlines()[-1]) for output, _ in outputs]
    assert [result[1] for result in results] == [False, False]
    for rank, (_, _, shown, refused) in enumerate(results):
        assert f"rank {rank} of 2" in shown
        assert refused.startswith(f"rank: expected {rank}, since the sharding gives this process")
    expected = [
        batch.tolist()
        for batch in trainer_utils.iterate(
            numbered, batch_size=8, seed=3, features="id", remainder="drop"
        )
    ]
    for step, ids in enumerate(expected):
        parts = [results[n][0][step] for n in range(2)]
        assert [size for size, _ in parts] == [8, 8]
        assert [one for _, shards in parts for shard in shards for one in shard] == ids


def test_stats_count_batches_and_records(numbered):
    batches = trainer_utils.jax_batches(numbered, sharding=sharding("data"), **SETTINGS)
    count = sum(1 for _ in batches)
    stats = batches.stats()
    assert (stats.batches, stats.records) == (count, 8 * count)
    assert stats.wait_for_data_seconds > 0
