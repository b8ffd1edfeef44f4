"""Calls of the public functions for type checkers; lines marked `# error` are wrong on purpose."""

import pathlib

import components
import pipelines
import trainer_utils
from trainer_utils import CacheOptions, ImageOptions, LabelOptions, PackOptions
from trainer_utils.monitoring import measure_input


def read(uri: str) -> None:
    trainer_utils.iterate(uri, "train", batch_size=64, rank=0, world_size=2)
    trainer_utils.iterate(uri, bach_size=3)  # error
    trainer_utils.iterate(uri, batch_size="3")  # error
    trainer_utils.iterate(uri, remainder="dropp")  # error
    trainer_utils.iterate(uri, remainder="drop", cache="/fast", image={"resize": "crop"})
    trainer_utils.iterate(uri, image={"resise": "crop"})  # error
    trainer_utils.iterate(uri, image=ImageOptions(channels=1), labels=LabelOptions(one_hot=True))
    trainer_utils.iterate(uri, pack=PackOptions(length=128), cache=CacheOptions(max_bytes=1))
    trainer_utils.iterate([uri, uri], weights=[2, 1], shuffle="global", repeat=True)
    trainer_utils.input_fn(uri, bach_size=3)  # error
    trainer_utils.input_fn(uri, features=3)  # error
    trainer_utils.input_fn(uri, features=["image", "label"], augment=["flip", ("colour", 0.4)])
    trainer_utils.distribute(None, uri, bach_size=3)  # error
    trainer_utils.load(uri, bach_size=3)  # error
    trainer_utils.load(uri, shuffle=False)
    trainer_utils.torch_dataset(uri, bach_size=3)  # error
    trainer_utils.torch_dataset(uri, seed="3")  # error
    trainer_utils.torch_loader(uri, bach_size=3)  # error
    trainer_utils.torch_loader(uri, num_workers=2, label="label")
    trainer_utils.jax_batches(uri, bach_size=3)  # error
    trainer_utils.jax_batches(uri, sharding=None, seed=3)
    trainer_utils.keras_dataset(uri, bach_size=3)  # error
    trainer_utils.keras_dataset(uri, label="label")
    trainer_utils.plan(uri, bach_size=3)  # error
    trainer_utils.plan(uri, workers=4, batch_size=3)
    measure_input(uri, bach_size=3)  # error
    measure_input(uri, seconds=1, batch_size=3)


def write(uri: pathlib.Path) -> None:
    trainer_utils.DatasetWriter(uri, num_shards={"train": 4}, compression="gzip")
    trainer_utils.DatasetWriter(uri, num_shard=4)  # error
    trainer_utils.DatasetWriter(uri, compression="zip")  # error


def convert(source: pathlib.Path) -> None:
    result = pipelines.convert(source, "out", layout="folder", num_shards=8, kind="image")
    pipelines.convert(source, "out", kind="video")  # error
    pipelines.convert(source, "out", layuot="folder")  # error
    pipelines.convert(source, "out", num_shards="8")  # error
    trainer_utils.iterate(result, "train", batch_size=8)
    trainer_utils.Part(result, weight=2)
    total: int = result.written + result.rejected
    text: str = result  # error
    uri: str = result.uri
    path = pathlib.Path(result)
    print(total, text, uri, path)


def assemble() -> None:
    images = components.ImageExampleGen("photos/", layout="folder", resize_shorter_side=256)
    components.ImageExampleGen("photos/", layuot="folder")  # error
    components.ImageExampleGen("photos/", quality="90")  # error
    components.ImageExampleGen("photos/", verify="decoded")  # error
    components.TextExampleGen("rows.csv", columns={"stars": "float"}, header=True)
    components.TextExampleGen("rows.csv", min_char=3)  # error
    components.AudioExampleGen("clips/", sample_rate=16_000)
    components.AudioExampleGen("clips/", samplerate=16_000)  # error
    examples = images.outputs["examples"]
    components.ShardBalancer(examples, num_shards={"train": 8}, where="label != 'x'")
    components.ShardBalancer(examples, num_shard=8)  # error
    components.SchemaExport(examples, tfds=True)
    components.SchemaExport(examples, tfsd=True)  # error
    components.DatasetAudit(examples, fail_on=["leakage"])
    components.DatasetAudit(examples, failon=["leakage"])  # error
    components.DatasetReport(examples, sample_records="1")  # error
