"""Compare how well orders mix sorted records: ours, a true shuffle and tf.data's buffer.

    python benchmarks/shuffle_quality.py

Entropy is the entropy of the distances between neighbours, in bits, as in MosaicML's simulator of
its streaming datasets. Rows of a batch are first put in a random order, since their order means
nothing to a trainer. Deviation is the standard deviation of a batch's number of records of a class.
"""

import argparse

import numpy as np

from trainer_utils.order import FileRange, InputOrder, OrderOptions


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()
    records, size = options.records, options.batch_size
    generator = np.random.default_rng(0)

    def show(name, order):
        label = order // -(-records // options.classes)
        batches = label[: records // size * size].reshape(-1, size)
        counts = np.stack([np.bincount(one, minlength=options.classes) for one in batches])
        print(f"{name:24} {entropy(order):6.2f} bits   deviation {counts.std():.2f}")

    show("numpy's permutation", generator.permutation(records))
    for shuffle in ("global", 100, 1000, 2500, 10_000, records, False):
        ranges = [FileRange("", 0, records)]
        order = InputOrder(ranges, OrderOptions(batch_size=size, shuffle=shuffle, seed=1))
        batches = [order.positions(0, step) for step in range(order.steps_per_epoch)]
        if shuffle is not False:
            batches = [generator.permutation(one) for one in batches]
        show(f"shuffle={shuffle!r}", np.concatenate(batches))
    for buffer in (1000, 2500, 10_000):
        show(f"tf.data shuffle({buffer})", buffered(records, buffer, generator))


def entropy(order):
    """Return the entropy of the distances between neighbours, in bits."""
    shares = np.bincount(np.abs(np.diff(order))) / (len(order) - 1)
    shares = shares[shares > 0]
    return -float((shares * np.log2(shares)).sum()) + 0.0


def buffered(records, size, generator):
    """Return the order that a shuffle buffer makes of records in order."""
    buffer, order = np.arange(size), np.empty(records, np.int64)
    for record in range(size, records):
        place = generator.integers(size)
        order[record - size], buffer[place] = buffer[place], record
    order[records - size :] = generator.permutation(buffer)
    return order


if __name__ == "__main__":
    main()
