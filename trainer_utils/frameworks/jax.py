"""Read a dataset as global arrays of JAX.

    sharding = NamedSharding(mesh, PartitionSpec("data"))
    for batch in jax_batches(uri, "train", batch_size=256, sharding=sharding, repeat=True): ...

JAX is imported when `jax_batches` is called, and TensorFlow never.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.dataset.location import Inputs
from trainer_utils.frameworks.numpy import import_framework
from trainer_utils.frameworks.ranks import choose_rank, report_rank
from trainer_utils.options import InputOptions, choose_options, shows_settings
from trainer_utils.reading.batch_iterator import BatchIterator
from trainer_utils.reading.elements import Batch
from trainer_utils.reading.input_metrics import observe_input, warn_if_starved

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainer_utils.options.keywords import InputSettings

_ERROR = "\0error"  # never the name of a feature


@shows_settings
def jax_batches(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    sharding: Any = None,
    options: InputOptions | None = None,
    **settings: "Unpack[InputSettings]",
) -> "JaxBatches":
    """Read a dataset as batches for JAX, on one process or, after `jax.distributed`, on many.

    Args:
        artifact_uri: the dataset, as in `iterate`.
        split: the split or slices to read, as in `iterate`.
        rank: the rank of this process, from 0. None: `jax.process_index()` after `jax.distributed`,
            or rather the place of this process's devices in the sharding; without it, as in
            `iterate`. Processes that JAX does not know of, such as Horovod's, get arrays of their
            own rows.
        world_size: the number of processes that read different rows. None: detected likewise.
        sharding: a `jax.sharding.Sharding` of the batches; rows are the first dimension. Features
            with fewer dimensions use its first ones. None: the rows are divided evenly among all
            devices of all processes.
        options: all settings, as in `iterate`.
        settings: fields of `InputOptions`, as in `iterate`. `batch_size` is the GLOBAL batch. All
            batches have one shape, so an incomplete last batch is dropped, unless
            `remainder="pad"`.

    Returns:
        An iterable like that of `iterate`. Arrays of numbers become one `jax.Array` of the whole
        batch; 64 bits become 32, unless `jax_enable_x64` is set. Arrays of bytes contain only this
        process's rows. `state(step)` is the token to resume from, with any number of processes.

    Raises:
        DatasetError: as in `iterate`.
        ConfigError: as in `iterate`; or a process's rows are no equal part of the batch, or the
            rank is not that of the sharding, or JAX is not installed.
    """
    chosen = choose_options(options, settings, of=jax_batches)
    if chosen.remainder is None:
        chosen = chosen.replace(remainder="drop")
    jax = import_framework("jax", shown="JAX", of="jax_batches")
    size = chosen.batch_size
    if size is None or chosen.remainder == "balance" or chosen.ragged:
        name = "batch_size" if size is None else "ragged" if chosen.ragged else "remainder"
        rule = "batches of one shape, as JAX compiles for"
        raise ConfigError.of(name, getattr(chosen, name), allowed=rule)
    if sharding is None:
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    if jax.process_count() > 1:
        rank_in_sharding = _rank_in_sharding(sharding, size)
        if rank is not None or world_size is not None:
            _check_rank((rank, world_size), rank_in_sharding)
        rank, world_size = rank_in_sharding
        report_rank(rank, world_size, "jax.distributed and the sharding")
        array_rows = size
    else:
        rank, world_size = choose_rank(rank=rank, world_size=world_size)
        if size % world_size:
            rule = f"a multiple of world_size={world_size}"
            raise ConfigError.of("batch_size", size, allowed=rule)
        array_rows = size // world_size
        _own_rows(_of_rank(sharding, 1), array_rows)  # that the sharding divides them
    batches = JaxBatches.open(artifact_uri, split, chosen, worker=rank, num_workers=world_size)
    batches.array_rows = array_rows
    specs = batches.structure.items()
    mixed = [name for name, spec in specs if None in spec.shape and spec.dtype != "bytes"]
    if world_size > 1 and mixed:
        rule = "those of fixed shapes, since each process pads to the longest of its own rows"
        raise ConfigError.of("features", mixed, allowed=rule)
    batches.sharding = sharding
    observe_input(batches, batches.spec, batches.counters.stats)
    warn_if_starved(batches.counters)
    return batches


class JaxBatches(BatchIterator):
    """The global batches of all processes: see `jax_batches`."""

    sharding: Any
    array_rows: int  # of the arrays: of the global batch, or this process's if JAX knows of one
    _has_64_bits = False

    def __iter__(self) -> Iterator[Any]:
        import jax  # type: ignore[import-not-found]

        self._has_64_bits = jax.config.jax_enable_x64  # may be set for this thread only
        return super().__iter__()

    def batches(self, epoch: int, steps: Sequence[int]) -> list[Batch]:
        """Return the batches of some steps as arrays of JAX; called in threads, ahead of training.

        Checking that integers fit in 32 bits and copying to the devices take milliseconds each.
        """

        batches = super().batches(epoch, steps)
        with _enable_64_bits(self._has_64_bits):
            return [self._global_batch(batch) for batch in batches]

    def arranged(self, batch: Batch) -> Any:
        """Return a batch as the trainer gets it, or raise the error of making it."""
        if _ERROR in batch:
            raise batch[_ERROR]
        return super().arranged(batch)

    def _global_batch(self, batch: Batch) -> Batch:
        import jax

        try:
            global_batch: Batch = jax.tree_util.tree_map(self._to_global, batch)
        except DatasetError as error:  # raised at its step, after the batches before it
            global_batch = {_ERROR: error}
        return global_batch

    def _to_global(self, values: Any) -> Any:
        """Return a global array with this process's rows; refuse integers too large for JAX."""
        import jax

        if values.dtype == object:
            return values
        held = jax.dtypes.canonicalize_dtype(values.dtype)  # JAX may hold 64-bit types in 32 bits
        if values.dtype != held:
            narrowed = values.astype(held)  # once: JAX would copy them again
            if values.dtype.kind in "iu" and (narrowed != values).any():
                rule = f"integers that {held} holds; jax_enable_x64 keeps {values.dtype}"
                raise DatasetError(f"a batch: expected {rule}, got larger ones.")
            values = narrowed
        shape = (self.array_rows, *values.shape[1:])
        sharding = _of_rank(self.sharding, values.ndim)
        return jax.make_array_from_process_local_data(sharding, values, shape)


def _enable_64_bits(enable: bool) -> contextlib.AbstractContextManager[Any]:
    """Return a context that sets whether JAX has 64-bit types in the thread that enters it."""
    import jax

    if jax.config.jax_enable_x64 == enable:
        return contextlib.nullcontext()
    context: Any = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    enabling: contextlib.AbstractContextManager[Any] = context(enable)
    return enabling


def _of_rank(sharding: Any, rank: int) -> Any:
    """Return a sharding limited to its first `rank` dimensions."""
    from jax.sharding import NamedSharding, PartitionSpec  # type: ignore[import-not-found]

    if not isinstance(sharding, NamedSharding) or len(sharding.spec) <= rank:
        return sharding
    return NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[:rank]))


def _rank_in_sharding(sharding: Any, size: int) -> tuple[int, int]:
    """Return which part of a global batch this process's devices hold, and the number of parts."""
    first, last = _own_rows(_of_rank(sharding, 1), size)
    rows = last - first
    if size % rows or first % rows:
        rule = f"an equal part of the {size} rows of a batch for each process"
        raise ConfigError.of("sharding", (first, last), allowed=rule)
    return first // rows, size // rows


def _check_rank(given: tuple[int | None, int | None], in_sharding: tuple[int, int]) -> None:
    """Raise ConfigError if a given rank is another one than the sharding's."""
    for name, value, expected in zip(
        ("world_size", "rank"), given[::-1], in_sharding[::-1], strict=True
    ):
        if value != expected:
            part = "part {} of {}".format(*in_sharding)
            rule = f"{expected}, since the sharding gives this process {part}"
            cure = "Leave out rank and world_size, or order the mesh's devices by process"
            raise ConfigError.of(name, value, allowed=rule, advice=cure)


def _own_rows(sharding: Any, size: int) -> tuple[int, int]:
    """Return the first row on this process's devices, and the one after the last."""
    try:
        places = sharding.addressable_devices_indices_map((size,)).values()
    except ValueError as error:
        raise ConfigError.of(
            "batch_size", size, allowed=f"one that the sharding divides ({error})"
        ) from error
    parts = sorted({index[0].indices(size)[:2] for index in places})
    if any(stop != start for (_, stop), (start, _) in itertools.pairwise(parts)):
        rule, cure = "neighbouring rows on a process's devices", "Order the mesh by process"
        raise ConfigError.of("sharding", parts, allowed=rule, advice=cure)
    return parts[0][0], parts[-1][1]
