"""Makes vectors.json: what docs/order.md says of some sixty orders, for implementations to check.

python -m tests.order.make_vectors > tests/order/vectors.json
"""

import json
import random

from trainer_utils.order import FileRange, InputOrder, MixPart, OrderOptions

_DATASETS = [[[10]], [[300, 7, 0, 93]], [[5000]], [[70_001]], [[1_000_003]]]
_SETTINGS = [
    {"shuffle": False},
    {"shuffle": False, "remainder": "drop"},
    {"shuffle": "global", "seed": 1},
    {"shuffle": "global", "seed": -7, "remainder": "balance"},
    {"shuffle": 50, "seed": 1 << 70},
    {"shuffle": 1000, "seed": 3, "remainder": "drop"},
    {"shuffle": 10_000, "remainder": "pad", "echoing": 2},
    {"shuffle": True, "mean_record_bytes": 100_000.5, "remainder": "balance"},
    {"shuffle": 700, "reshuffle_each_iteration": False},
    {"shuffle": 20, "batch_size": None},
]
# What those happen not to meet: the datasets' shards, settings and workers.
_CORNERS = [
    # One block for all records, whose mean size is below that of what a record costs in memory.
    ([[5000]], {"batch_size": 1, "shuffle": True, "mean_record_bytes": 3.0}, 1),
    ([[5000]], {"batch_size": 2, "shuffle": True, "mean_record_bytes": 3.0}, 2),
    # (full // K) * B // 256 is 1, full * B // K // 256 is 2.
    ([[5000]], {"batch_size": 56, "shuffle": 500}, 4),
    ([[5], [1]], {"batch_size": 2, "shuffle": False, "weights": [2, 1]}, 1),
    ([[5], [1]], {"batch_size": 2, "shuffle": "global", "weights": [2, 1]}, 2),
    # Single examples that workers cannot share.
    ([[300, 7, 0, 93]], {"batch_size": None, "shuffle": False}, 3),
    ([[300, 7, 0, 93]], {"batch_size": None, "shuffle": 20}, 7),
]


def cases():
    """Each: the datasets' shards by their records, settings, and rows of some steps."""
    rng = random.Random(0)
    for number, settings in enumerate(_SETTINGS * 5):
        (shards,) = _DATASETS[(number + number // 10) % 5]
        batch_size = rng.choice([8, 16, 24, 64] if sum(shards) > 100 else [4, 8])
        chosen = {"batch_size": batch_size, **settings}
        if number % 10 == 4:
            chosen |= {"weights": [3, 1]}
            yield case([shards, [40]], chosen, rng)
        else:
            yield case([shards], chosen, rng)
    for datasets, settings, workers in _CORNERS:
        yield case(datasets, dict(settings), rng, workers)


def case(datasets, settings, rng, workers=None):
    ranges = [
        [FileRange(f"{d}-{n}", 0, size) for n, size in enumerate(shards)]
        for d, shards in enumerate(datasets)
    ]
    mean = settings.pop("mean_record_bytes", None)
    options = OrderOptions(**settings)
    size = options.batch_size
    most = 2 if options.remainder == "balance" else 8  # of few records some would get none
    if workers is None:
        allowed = [w for w in (1, 2, 4, 8) if w <= most and (size is None or size % w == 0)]
        workers = rng.choice(allowed)
    order = InputOrder(
        [part for some in ranges for part in some],
        options,
        num_workers=workers,
        mean_record_bytes=mean,
        parts=[MixPart(sum(shards), "") for shards in datasets],
    )
    last = order.steps_per_epoch - 1
    asked = {(0, 0), (0, last), (1, rng.randint(0, last)), (5, max(last - 1, 0))}
    rows = [
        {
            "epoch": epoch,
            "step": step,
            "worker": (worker := rng.randrange(workers)),
            "positions": order.positions(epoch, step, worker).tolist(),
        }
        for epoch, step in sorted(asked)
    ]
    if mean is not None:
        settings["mean_record_bytes"] = mean
    return {
        "datasets": datasets,
        "settings": settings,
        "workers": workers,
        "steps_per_epoch": order.steps_per_epoch,
        "rows": rows,
    }


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(one) for one in cases())
    print(f"[\n{lines}\n]")
