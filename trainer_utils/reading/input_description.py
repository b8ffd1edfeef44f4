"""Describe an input for `repr`: its features, records, steps, order and rank.

describe_input("TorchDataset", batches.spec, batches.conversion)
# TorchDataset: 796 records, 13 steps per epoch, rank 0 of 1
#   image: (None, 224, 224, 3) uint8
#   order: shuffle=True, seed=0; starts at epoch 0, step 0
"""

from collections.abc import Iterator

from trainer_utils.reading.input_conversion import InputConversion
from trainer_utils.reading.input_spec import InputSpec
from trainer_utils.reading.views import MappedBatches

# Settings of the order that are shown only if they differ from their defaults.
_SHOWN_IF_SET = (
    *("where", "repeat", "remainder", "weights", "pack", "echoing"),
    "reshuffle_each_iteration",
)


def describe_input(name: str, spec: InputSpec, conversion: InputConversion | None) -> str:
    """Return the lines of an input's `repr`.

    Args:
        name: the name of the input's class.
        spec: the contents of its batches.
        conversion: the conversion of its raw inputs in the background, or None.
    """
    lines = [*_lines(name, spec)]
    if conversion is not None:
        status = f"conversion to {conversion.out}: {conversion.status}"
        lines.append(f"reads: {conversion.reads_from}; {status}")
    return "\n  ".join(lines)


def _lines(name: str, spec: InputSpec) -> Iterator[str]:
    """Yield the lines of the description: size, features, order and position."""
    layout, options, start = spec.order.layout, spec.options, spec.order.start
    unit = "pack" if options.pack is not None else "record"
    records, steps = _count(layout.num_records, unit), _count(spec.order.steps_per_epoch, "step")
    yield f"{name}: {records}, {steps} per epoch, rank {spec.worker} of {layout.num_workers}"
    for feature, array in spec.structure.items():
        ragged = ", ragged" if array.is_ragged else ""
        yield f"{feature}: {array.shape} {array.dtype}{ragged}"
    if isinstance(spec.after, MappedBatches):
        names = (getattr(function, "__name__", repr(function)) for function in spec.after.functions)
        yield f"map: {', '.join(names)}"
    settings = [f"shuffle={options.shuffle!r}", f"seed={options.seed}"]
    defaults = type(options)()
    for setting in _SHOWN_IF_SET:
        value = getattr(options, setting)
        if value != getattr(defaults, setting):
            settings.append(f"{setting}={value!r}")
    yield f"order: {', '.join(settings)}; starts at epoch {start.epoch}, step {start.step}"


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
