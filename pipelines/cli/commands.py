"""All commands: each calls a function of the library and returns the result to print.

Before a command runs, only click is imported; TensorFlow and TFX only by commands that need them.
"""

import dataclasses
import importlib.util
import json
import shlex
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import click

from pipelines.cli.signatures import (
    Dataset,
    Files,
    Group,
    With,
    command,
    given_settings,
    height_and_width,
    json_or_text,
    list_of_names,
    shares,
)
from pipelines.cli.terminal import (
    Facts,
    freeze_modules,
    is_terminal,
    print_messages,
    show_progress,
)

_FILE = click.Path(dir_okay=False)
_Output = Annotated[str | None, "-o --output", _FILE]
_Settings = Annotated[tuple[tuple[str, Any], ...], "--set", "NAME=VALUE", With(type=json_or_text)]
_Texts = tuple[str, ...]
_Uri = Annotated[str | None, "URI"]
_Name = Annotated[str | None, "NAME"]
_0, _1 = click.IntRange(min=0), click.IntRange(min=1)


def _require(name: str, package: str, cure: str) -> None:
    if importlib.util.find_spec(package) is None:
        from trainer_utils.core.errors import ConfigError

        raise ConfigError(f"tfx-shards {name} needs {package}, which is not installed: {cure}")


def _require_out(out: str | None, dry_run: bool) -> None:
    if out is None and not dry_run:
        raise click.UsageError("Missing argument 'OUT': a folder for the dataset.")


def _settings_of_balancer() -> dict[str, Mapping[str, Any]]:
    from components.balancing.settings import BalancerSettings

    return {"Settings": BalancerSettings.described()}


def _settings() -> dict[str, Mapping[str, Any]]:
    """Return the settings by section of the help and by name; each is in one section."""
    from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
    from pipelines.cli.sections import in_sections, merge_kinds

    kinds = {
        "Images": ImageSettings.described(),
        "Texts": TextSettings.described(),
        "Audio files": AudioSettings.described(),
    }
    return in_sections({**_settings_of_balancer()["Settings"], **merge_kinds(kinds)})


@command(Group.MAKE, sections=_settings)
def convert(
    source: Annotated[str, "SRC"],
    out: str | None = None,
    *,
    kind: Annotated[str | None, click.Choice(("image", "text", "audio"))] = None,
    splits: Annotated[Any, "NAME=SHARE,…", shares] = None,
    others: _Settings = (),
    beam_args: Annotated[_Texts, "--beam-arg", With(metavar="--FLAG=VALUE")] = (),
    metadata: Annotated[str | None, _FILE] = None,
    update: bool = False,
    restart: bool = False,
    verify_output: bool = False,
    replace: bool = False,
    dry_run: bool = False,
    **given: Any,
) -> Any:
    """Convert images, texts or audio files to a balanced dataset of TFRecord shards, with lineage.

    SRC is a folder, a table or an archive, local or in a bucket, or an .npz of arrays. OUT gets the
    artifacts, metadata.sqlite if TFX is installed, and `latest`, a link to the newest dataset. The
    uri of the dataset is printed. Results that are up to date are reused.

    \b
    tfx-shards convert photos/ out/
    tfx-shards convert reviews.csv out/ --splits train=0.8,eval=0.2 --column stars=float
    tfx-shards convert clips/ out/ --sample-rate 16000 --num-shards train=8,eval=2
    tfx-shards convert photos/ --dry-run

    Args:
        kind: Kind of the input. Default: recognised from the files.
        splits: Splits to assign by a hash, such as train=8,eval=1 or train=0.8,eval=0.2. Default:
            the splits of the files, or train=2,eval=1.
        others: Any setting by its name in Python; VALUE is JSON or a string.
        beam_args: A flag for Beam; may be repeated.
        metadata: The sqlite file of ML Metadata. Default: OUT/metadata.sqlite.
        update: Reuse shards of the newest dataset in OUT whose inputs have not changed.
        restart: Discard the results of an earlier, failed or interrupted run.
        verify_output: Read all datasets in OUT; rebuild damaged ones.
        replace: Convert into OUT even if it holds another kind.
        dry_run: Show the result without writing it; exit 1 if the run would fail.
    """
    _require_out(out, dry_run)
    options = given_settings(given)
    for name, value in others:
        if name in options:
            raise click.BadParameter(f"{name} is given twice", param_hint="--set")
        options[name] = value
    named: dict[str, Any] = {"kind": kind, "splits": splits, "metadata": metadata}
    named |= {"update": update, "replace": replace, "beam_pipeline_args": list(beam_args) or None}
    with show_progress("Looking at the input"):
        from pipelines.tools.conversion.convert import prepare_all

        conversion = prepare_all(source, out, **named, **options)
    if kind is None:
        print_messages(f"{source}: {conversion.seen}")
    if dry_run:
        with show_progress("Planning"):
            from pipelines.tools.conversion.dry_run import plan_conversion

            plan = dataclasses.replace(plan_conversion(conversion), source=source)
        return plan, not plan.problem
    from pipelines.tools.conversion.convert import run_conversion

    freeze_modules()
    result = run_conversion(
        conversion, str(out), metadata=metadata, restart=restart, verify_output=verify_output
    )
    return Facts(result.to_json, result.uri, note=result.summary())


@command(Group.MAKE, sections=_settings_of_balancer)
def balance(
    uri: Annotated[str, "URI"],
    out: str | None = None,
    *,
    restart: bool = False,
    dry_run: bool = False,
    **given: Any,
) -> Any:
    """Rewrite a dataset in equal shards, with records excluded, added or relabelled.

    OUT, a folder or a place in a bucket, gets the new dataset with its lineage, as from `convert`.
    The old dataset does not change.

    \b
    tfx-shards balance out/ balanced/ --num-shards 8
    tfx-shards balance out/ clean/ --exclude bad.txt --relabel new-labels.csv --keep-shards
    tfx-shards balance out/ large/ --where "height >= 64 and label != 'unknown'" --dry-run

    Args:
        restart: Discard the results of an earlier, failed or interrupted run.
        dry_run: Show the result without writing it.
    """
    _require_out(out, dry_run)
    settings = given_settings(given)
    from pipelines.tools.conversion import convert as conversion

    conversion.check_balancing(settings)
    if dry_run:
        with show_progress("Planning"):
            from components.balancing.planning import plan
            from trainer_utils.dataset.location import newest_dataset

            return plan(newest_dataset(uri), **settings)
    freeze_modules()
    with show_progress("Balancing"):
        uri_of_result = conversion.balance(uri, str(out), restart=restart, **settings)
    return Facts({"uri": uri_of_result}, uri_of_result)


@command(Group.MAKE)
def layouts(
    source: Annotated[str | None, "[SRC]"] = None,
    *,
    kind: Annotated[str | None, click.Choice(("image", "text", "audio"))] = None,
    ignore: Annotated[_Texts, "--ignore", "PATTERN"] = (),
    follow_links: bool = False,
) -> Any:
    """List the layouts of inputs, with a drawing of each, or explain which one SRC has.

    SRC is a folder, a table or an archive. Each layout is shown with the reason why it matches or
    does not match. `convert` takes the first that matches.

    \b
    tfx-shards layouts
    tfx-shards layouts photos/
    tfx-shards layouts photos/ --json

    Args:
        kind: Kind of the input. Default: recognised from the files.
        ignore: Pattern of files to leave out, as for `convert`; may be repeated.
        follow_links: Read linked files and folders.
    """
    from pipelines.tools.layouts import describe_layouts

    with show_progress("Looking at the input"):
        return describe_layouts(source, kind=kind, ignore=[*ignore], follow_links=follow_links)


@command(Group.LOOK)
def inspect(place: Files) -> Any:
    """Show the content of a dataset: splits, shards, features, label counts, rejects.

    URI is the folder of a dataset of tfx-shards, Datum, TFDS or TFX, the output folder of
    `convert`, or TFRecord files, by name or pattern. If a dataset has metadata, only that is read.

    \b
    tfx-shards inspect out/
    tfx-shards inspect 'imagenet/train-*'
    tfx-shards inspect gs://bucket/photos --json | jq .splits.train.records
    """
    from components.report.inspection import inspect_dataset

    with show_progress("Reading"):
        return inspect_dataset(place)


@command(Group.LOOK)
def show(
    place: Files,
    *,
    split: str | None = None,
    record: _Name = None,
    count: Annotated[int, "-n --number", _1] = 20,
    folder: Annotated[str | None, "--export", "DIR", click.Path(file_okay=False)] = None,
) -> Any:
    """Show records: numbers, texts, names of labels, descriptions of images and audio clips.

    \b
    tfx-shards show out/ --split 'eval[100:]' -n 5
    tfx-shards show out/ --record cat/1.jpg
    tfx-shards show out/ -n 100 --export looked-at/

    Args:
        split: A split or a slice: 'train[100:]'. Default: the first split.
        record: Show the records with this filename or id, in any split.
        count: Maximum number of records to show.
        folder: Write a CSV, and images, audio and long texts as files, into an empty folder.
    """
    from components.report.display import EXAMPLES_FILE, as_text, export_examples
    from components.report.records import ExampleReader, read_examples
    from trainer_utils.core.text_output import quantity

    if split is not None and record is not None:
        raise click.UsageError("--split, --record: expected one of them")
    with show_progress("Reading" if folder is None else "Writing"):
        if record is not None:
            examples_read = ExampleReader(place).named(record, count=count)
        else:
            examples_read = read_examples(place, split, count=count)
        if folder is None:
            examples = list(examples_read)
            return Facts([example.to_json() for example in examples], lambda: as_text(examples))
        written = export_examples(examples_read, folder)
    print_messages(f"{quantity(written, 'record')}: {folder}/{EXAMPLES_FILE}")
    return None


@command(Group.LOOK, has_json=False)
def report(
    uri: Dataset,
    *,
    output: Annotated[str, "-o --output", _FILE] = "report.html",
    sample: Annotated[int, _1] = 1000,
    statistics: _Uri = None,
) -> Any:
    """Write a report of a dataset: one HTML page that needs no network.

    The exit status is 1 if a sampled record is damaged; the page is written nevertheless.

    \b
    tfx-shards report out/ -o report.html

    Args:
        output: The file to write.
        sample: Maximum number of records to read per split.
        statistics: TFX's ExampleStatistics of the dataset, to include in the page.
    """
    from components.report.page import write_report

    with show_progress("Reading") as advance:
        damage = write_report(
            uri, output, sample_records=sample, statistics=statistics, advance=advance
        )
    print_messages(f"Written: {output}", *([f"Error: {damage}"] if damage else []))
    return None, not damage


@command(Group.LOOK, has_json=False)
def browse(
    uri: Dataset,
    *,
    port: Annotated[int, click.IntRange(0, 65535)] = 0,
    opens: Annotated[bool, "--open"] = False,
) -> None:
    """Browse the records of a dataset as web pages, served to this machine only, until Ctrl-C.

    \b
    tfx-shards browse out/ --open

    Args:
        port: Port to listen on; 0 is any free port.
        opens: Open the page in a browser.
    """
    import webbrowser

    from pipelines.tools.browse import BrowseServer

    with show_progress("Opening"):
        server = BrowseServer(uri, port=port)
    with server:
        print_messages(f"{server.url}  (Ctrl-C ends it)")
        if opens:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print_messages("")


@command(Group.CHECK)
def verify(place: Files, *, processes: Annotated[int | None, _1] = None) -> Any:
    """Read and check a whole dataset; exit 1 if there is any problem.

    List every problem with file, record and byte. For TFRecord files, and for datasets without a
    manifest, which other tools write, only the records are checked.

    \b
    tfx-shards verify out/
    tfx-shards verify out/ --json | jq '.problems[].path'

    Args:
        processes: Number of reader processes. Default: one per core.
    """
    from pipelines.tools.verification import verify_dataset
    from trainer_utils.runtime.machine import usable_cores

    with show_progress("Verifying") as advance:
        verification = verify_dataset(place, processes=processes or usable_cores(), advance=advance)
    if not verification.is_good:
        from pipelines.tools.conversion.run_record import note_failed_read

        note_failed_read(verification.uri)
    return verification, verification.is_good


@command(Group.LOOK)
def diff(before: str, after: str, *, most: Annotated[int, _0] = 100) -> Any:
    """Show which records were added, removed, changed, or moved to another split.

    Records are matched by name: `filename` or `id`. The exit status is 0 whether the datasets
    differ or not.

    \b
    tfx-shards diff before/ after/ --json | jq .counts

    Args:
        most: Maximum number of changes of each kind to list; all are counted.
    """
    from pipelines.tools.diff import compare_datasets
    from trainer_utils.dataset.location import newest_dataset

    uris = newest_dataset(before), newest_dataset(after)
    with show_progress("Comparing") as advance:
        return compare_datasets(*uris, most=most, advance=advance)


@command(Group.MAKE)
def forget(
    names: Annotated[_Texts, "[NAME]...", With(nargs=-1, required=False)],
    *,
    roots: Annotated[_Texts, "--in", "ROOT", With(required=True)],
    listed: Annotated[str | None, "--file", click.Path(exists=True, dir_okay=False)] = None,
    caches: Annotated[_Texts, "--cache", "FOLDER"] = (),
    output: _Output = None,
    plain_names: bool = False,
    dry_run: bool = False,
    yes: Annotated[bool, "-y --yes"] = False,
) -> Any:
    """Remove records from all datasets under a folder, and write a certificate.

    NAME is the filename, id or record_id of a record. Repeat the command to finish a killed run.
    The exit status is 1 if a raw input of a record remains, or a setting or class still contains
    it. No other program may write to ROOT meanwhile.

    \b
    tfx-shards forget cat/1.jpg cat/2.jpg --in runs/ --dry-run
    tfx-shards forget --file withdrawn.txt --in runs/ --yes -o certificate.json

    Args:
        roots: The folder to search; several may be given.
        listed: A file of further names, one per line.
        caches: The cache= folder of a trainer on this machine, if it is outside ROOT.
        output: The file of the certificate. Default: forgotten-….json in ROOT.
        plain_names: Write the names into the certificate instead of their SHA-256.
        dry_run: List the records that would be removed, and change nothing.
        yes: Do not ask before datasets are rewritten.
    """
    from pipelines.tools.forget import Forgetting
    from trainer_utils.storage import read_text

    lines = [] if listed is None else read_text(listed).removeprefix("\ufeff").splitlines()
    options: dict[str, Any] = {"output": output, "caches": caches, "plain_names": plain_names}
    with show_progress("Searching") as advance:
        wanted = [*names, *(line for line in lines if line.strip())]
        forgetting = Forgetting.find(wanted, roots, advance=advance, **options)
    if not dry_run:
        if not yes and not is_terminal():
            raise click.UsageError(
                "Nothing was changed: datasets would be rewritten, and there is no terminal to "
                "confirm that. Add --yes to rewrite them, or --dry-run to list what would be "
                "removed."
            )
        if not yes:
            print_messages(*str(forgetting).split("\n"))
            if not click.confirm("Remove them?", err=True):
                raise click.ClickException("Nothing was changed.")
        with show_progress("Rewriting") as advance:
            forgetting.carry_out(advance=advance)
        print_messages(f"Written: {forgetting.path}")
    return Facts(forgetting.to_json, forgetting.parts), not forgetting.facts["remains"]


@command(Group.CHECK)
def audit(
    uri: Dataset,
    *,
    against: _Uri = None,
    fail_on: Annotated[Any, "NAME,…", list_of_names] = None,
    label: str = "label",
    most: Annotated[int, _0] = 100,
) -> Any:
    """Find problems in the content of a dataset: copies, leakage, label conflicts, shifts.

    Nearly equal records, within splits and across them; equal content with different labels;
    classes missing in a split; shifts between splits and from an earlier dataset; odd images.

    \b
    tfx-shards audit out/ --fail-on leakage,label_conflict
    tfx-shards audit out/ --against before/ --json | jq .counts

    Args:
        against: An earlier dataset to compare it with.
        fail_on: Kinds of findings that make the exit status 1, such as leakage,label_conflict.
        label: The feature with the class of a record.
        most: Maximum number of findings of each kind to list; all are counted.
    """
    from components.auditing.audit import audit_dataset
    from components.auditing.findings import check_kinds
    from trainer_utils.dataset.location import newest_dataset

    kinds = check_kinds("--fail-on", fail_on or [])
    earlier = None if against is None else newest_dataset(against)
    with show_progress("Auditing") as advance:
        result = audit_dataset(uri, against=earlier, label=label, most=most, advance=advance)
    failing = ", ".join(f"{count:,} {kind}" for kind, count in result.failing(kinds).items())
    if failing:
        print_messages(f"Error: found {failing}")
    return result, not failing


@command(Group.TRAIN)
def plan(
    uri: Dataset,
    *,
    workers: Annotated[int, _1] = 1,
    replicas: Annotated[int | None, _1] = None,
    batch_size: Annotated[int, _1] = 64,
    split: str | None = None,
    remainder: Annotated[str | None, click.Choice(["drop", "pad", "balance"])] = None,
    no_shuffle: bool = False,
) -> Any:
    """Show how many records and steps each worker will have, and how many are dropped or padded.

    No record is read. If a plan is impossible, the error says what to change: exit 2.

    \b
    tfx-shards plan out/ --workers 8 --batch-size 256 --remainder pad --json

    Args:
        workers: Number of workers that read the dataset.
        replicas: Number of replicas over all workers. Default: one per worker.
        batch_size: Number of records in a global batch.
        split: A split or a slice, such as 'train[:80%]'. Default: train.
        remainder: How to treat records that do not fill a batch. Default: a smaller last batch.
        no_shuffle: Read in the order of the files.
    """
    import trainer_utils

    options: dict[str, Any] = {"replicas": replicas, "remainder": remainder}
    options |= {"workers": workers, "batch_size": batch_size, "shuffle": not no_shuffle}
    with show_progress("Planning"):
        return trainer_utils.plan(uri, split, **options)


@command(Group.TRAIN)
def ledger(
    run: str,
    *,
    step: Annotated[int | None, _0] = None,
    record: _Name = None,
    place: Annotated[str | None, "SPLIT:NUMBER"] = None,
    spike: Annotated[int | None, "--spike", "STEP", _0] = None,
    window: Annotated[int, _1] = 200,
    count: Annotated[int, "-n --number", _1] = 20,
    write: Annotated[str | None, _FILE] = None,
    datasets: Annotated[_Texts, "--dataset", "URI"] = (),
) -> Any:
    """Show the records that a training run read at a step, or before a loss spike.

    RUN is the folder passed to InputProgress or fit. Without --step, --record, --place or --spike,
    show the datasets of the run and its restarts.

    \b
    tfx-shards ledger checkpoints/ --step 1234
    tfx-shards ledger checkpoints/ --record cat/1.jpg --json

    Args:
        step: Show the records in the global batch of this step, from 0.
        record: Show the steps that read the record with this filename or id.
        place: Show the steps that read the record with this number in a split.
        spike: Show the records in the steps up to this one, the most suspect first, by the losses
            from InputProgress(losses=True).
        window: Number of steps up to the spike to examine.
        count: Maximum number of records to list for a spike.
        write: Write the names of these records to a file, for `balance --exclude`.
        datasets: The current address of the dataset; for several, repeat it in the order of the
            run.
    """
    from pipelines.tools.ledger import RunLedger

    if sum(asked is not None for asked in (step, record, place, spike)) > 1:
        raise click.UsageError("--step, --record, --place, --spike: expected one of them")
    if write is not None and spike is None:
        raise click.UsageError("--write: requires --spike")
    split, _, number = (place or "").rpartition(":")
    if place is not None and not (split and number.isascii() and number.isdigit()):
        expected = f"expected a split and a number such as train:17, got {place!r}"
        raise click.UsageError(f"--place: {expected}")
    with show_progress("Reading the ledger"):
        if spike is not None:
            from pipelines.tools.spikes import find_suspects

            suspects = find_suspects(run, step=spike, window=window, most=count, datasets=datasets)
            if write is not None:
                suspects.write(write)
            return suspects
        saw = RunLedger(run, datasets=datasets)
        if step is not None:
            return saw.at_step(step)
        if record is not None:
            return saw.of_record(record)
        return saw.summary() if place is None else saw.of_place(split, int(number))


@command(Group.TRAIN)
def bench(
    uri: Dataset,
    *,
    split: str = "train",
    batch_size: Annotated[int, _1] = 64,
    seconds: Annotated[float, click.FloatRange(min=0, min_open=True)] = 2.0,
    image_size: Annotated[Any, "HxW", height_and_width] = None,
    features: Annotated[Any, "NAME,…", list_of_names] = None,
    settings: _Settings = (),
) -> Any:
    """Measure how fast this machine reads a dataset or raw files, and find the bottleneck.

    \b
    tfx-shards bench out/ --batch-size 256 --image-size 224x224 --features image,label
    tfx-shards bench out/ --set augment=random_resized_crop --set 'image={"normalize": "imagenet"}'

    Args:
        split: A split, or a slice of one.
        batch_size: Number of records in a batch.
        seconds: Seconds to measure each of the three stages.
        image_size: Height and width to resize images to. Default: 224x224 if their sizes differ.
        features: Names of the features to read. Default: all that can be batched.
        settings: Any other setting of input_fn, such as augment=random_resized_crop.
    """
    from trainer_utils.dataset.selection import open_place
    from trainer_utils.monitoring import measure_input
    from trainer_utils.options import InputOptions

    options = dict(settings)
    if features is not None:
        options["features"] = features
    conversion = InputOptions(batch_size=batch_size, **options).conversion
    known = open_place(uri, conversion).features.values()
    if image_size is None and any(
        feature.is_image and not feature.is_fixed_size for feature in known
    ):
        image_size = 224, 224  # images of different sizes cannot be batched
    if image_size is not None:
        options["image_size"] = image_size
    if sys.stderr.isatty():  # a progress bar would affect the measurement
        print_messages(f"Measuring, three times {seconds:g} s …")
    return measure_input(uri, split, batch_size=batch_size, seconds=seconds, **options)


@command(Group.CHECK)
def doctor(uri: Dataset, *, workers: Annotated[int, _1] = 1) -> Any:
    """Find problems that affect training, with their fixes; exit 1 if training will fail.

    \b
    tfx-shards doctor out/ --workers 8

    Args:
        workers: Number of workers that will read the dataset.
    """
    from components.report.doctor import checks_table, dataset_checks, is_good

    with show_progress("Examining"):
        checks = list(dataset_checks(uri, workers=workers))
    good = is_good(checks)
    facts = {"good": good, "checks": [dataclasses.asdict(check) for check in checks]}
    return Facts(facts, lambda: [checks_table(checks)]), good


_Store = Annotated[str | None, "METADATA"]


@command(Group.PIPELINE)
def lineage(
    uri: Dataset,
    *,
    metadata: _Store = None,
    record: _Name = None,
    form: Annotated[str, "--format", click.Choice(("text", "openlineage", "prov"))] = "text",
) -> Any:
    """Show the origin of a dataset and the results derived from it: runs, inputs, models.

    METADATA is a sqlite file, grpc://host:port, or a folder with such a file or with datasets.

    \b
    tfx-shards lineage out/ --record palace_sky/0003.jpg
    tfx-shards lineage gs://bucket/photos --metadata grpc://metadata:8080 --json

    Args:
        metadata: The store of ML Metadata. Default: a sqlite file in a folder above the dataset,
            else the lineage in the dataset itself.
        record: Trace one record, by its filename or id.
        form: openlineage: one event per line, for its API; prov: Croissant with PROV-O.
    """
    from pipelines.lineage import describe_artifact

    with show_progress("Reading the lineage"):
        result = describe_artifact(uri, metadata=metadata, record=record)
        if form == "text":
            return result
        from pipelines.lineage.exports import openlineage_events, prov_document

        if form == "prov":
            document = prov_document(result)
            return Facts(document, json.dumps(document, indent=2).split("\n"))
        events = list(openlineage_events(result))
        return Facts(events, [json.dumps(event) for event in events])


@command(Group.PIPELINE)
def runs(where: Annotated[str | None, "[METADATA]"] = None, *, metadata: _Store = None) -> Any:
    """List the pipeline runs in ML Metadata, or in the lineage of datasets.

    METADATA is the same as for `lineage`. [default: this folder]

    \b
    tfx-shards runs out/metadata.sqlite
    tfx-shards runs --metadata out/ --json

    Args:
        metadata: The same as a flag.
    """
    from pipelines.lineage import list_runs

    if where is not None and metadata is not None:
        raise click.UsageError(f"METADATA is given twice: {where!r} and {metadata!r}")
    with show_progress("Reading the lineage"):
        return list_runs(where or metadata or ".")


_STEP_FLAGS = {  # for all steps, or for the named one; each may be repeated
    "gpu": ("--gpu", "[STEP=]N", "Number of GPUs."),
    "gpu_type": ("--gpu-type", "[STEP=]NAME", "GPU resource name. Default: nvidia.com/gpu."),
    "cpu": ("--cpu", "[STEP=]N", "CPU cores, such as 4 or 500m."),
    "memory": ("--memory", "[STEP=]N", "Memory, such as 8Gi."),
    "retries": ("--retries", "[STEP=]N", "Retries of a step. Default: 2 for tfx-shards' steps."),
    "tolerations": ("--toleration", "[STEP=]KEY[=VALUE][:EFFECT]", "Taint to tolerate."),
    "secrets": ("--secret", "[STEP=]NAME:FOLDER", "Secret to mount, or NAME:KEY:VARIABLE."),
    "env": ("--env", "[STEP=]NAME=VALUE", "Environment variable."),
    "volumes": ("--volume", "[STEP:]CLAIM:PATH", "Volume claim and its mount path."),
    "scratch": ("--scratch", "[STEP=]PATH[:SIZE]", "Empty folder of the pod, such as /tmp:20Gi."),
}


@command(
    Group.PIPELINE,
    has_json=False,
    more=[
        click.Option([flag, name], multiple=True, metavar=metavar, help=sentence)
        for name, (flag, metavar, sentence) in _STEP_FLAGS.items()
    ],
)
def compile(
    pipeline: str,
    *,
    output: Annotated[str, "-o --output", _FILE] = "pipeline.yaml",
    image: str | None = None,
    pipeline_root: str | None = None,
    name: str | None = None,
    dataset_root: Annotated[str | None, "FOLDER"] = None,
    input_fingerprint: Annotated[str | None, "listing|none"] = None,
    **of_steps: _Texts,
) -> None:
    """Write a pipeline as a package for Kubeflow Pipelines v2.

    PIPELINE is `image` or `text` for a predefined pipeline, or FILE.py:FUNCTION for a function that
    returns one. Flags with STEP apply to that step, such as Trainer, or without STEP to all steps.

    \b
    tfx-shards compile image -o pipeline.yaml \\
        --image registry.example/tfx-shards:0.3.0.dev0 --pipeline-root gs://bucket/runs

    Args:
        output: File to write.
        image: Container image with tfx-shards[tfx] in it. Optional for a pipeline of kfp.dsl.
        pipeline_root: Folder for artifacts, such as gs://bucket/runs. Optional for a pipeline of
            kfp.dsl.
        name: Name of the pipeline. Default: its own name.
        dataset_root: Folder for datasets: on a volume that all pods mount, or in a bucket. Default:
            --pipeline-root.
        input_fingerprint: How Kubeflow's cache recognises the inputs of an ExampleGen.
            Default: listing.
    """
    if pipeline in ("image", "text"):  # a pipeline of kfp.dsl needs no TFX
        from trainer_utils.core.extras import HOW_TO_GET_TFX

        _require(f"compile {pipeline}", "tfx", HOW_TO_GET_TFX)
    _require("compile", "kfp", "run pip install 'tfx-shards[kfp]'")
    given = {"dataset_root": dataset_root, "input_fingerprint": input_fingerprint, **of_steps}
    with show_progress("Compiling"):
        from pipelines.kubeflow import compile_pipeline

        settings: dict[str, Any] = {"image": image, "pipeline_root": pipeline_root, "name": name}
        uploads = compile_pipeline(pipeline, output, **settings, **given_settings(given))
    print_messages(f"Written: {output}")
    for upload in uploads:
        print_messages(
            f"Upload the code of {upload.component} before the first run: "
            f"gcloud storage cp {shlex.quote(upload.source)} {shlex.quote(upload.target)}"
        )
