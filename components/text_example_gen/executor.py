"""Turns texts and tables into a dataset: inspect, plan, write, publish."""

import collections
from collections.abc import Sequence
from typing import Any

from absl import logging
from tfx import types
from tfx.types import artifact_utils

from components.common.beam import LocalFirstBeamExecutor
from components.common.listing import LeftOut
from components.common.progress import Work, shown_progress
from components.common.publish import describe_artifact, package_versions, publish_dataset
from components.common.summaries import check_finished, read_summary, start_working, working_folder
from components.common.worker_errors import raise_reported
from components.example_gen.conclusion import account, check_outcome, located_inputs, set_span
from components.example_gen.encoding import EncodingReport
from components.example_gen.inputs import LocatedInputs, layout_inputs, refuse_overlap
from components.example_gen.inspection import PieceReport
from components.example_gen.partition import Partition, partition_of
from components.example_gen.row_features import make_features
from components.example_gen.row_fingerprint import text_fingerprint
from components.example_gen.row_plan import RowPlan, plan_rows
from components.example_gen.row_transforms import InspectPieces, WriteRows, summary_name
from components.example_gen.vocabularies import label_column
from components.tables.headers import check_agreement
from components.tables.pieces import Piece
from components.text_example_gen.layouts import (
    find_pieces,
    is_source_file,
    what_was_looked_for,
)
from components.text_example_gen.settings import TextSettings
from components.text_example_gen.tables_of_files import TableOfFilesExecutor
from trainer_utils.format import Manifest, Shard
from trainer_utils.storage.files import list_names

__all__ = ["Executor"]


class Executor(LocalFirstBeamExecutor):
    """Executor of TextExampleGen."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Converts the texts.

        Args:
            input_dict: empty.
            output_dict: `examples`: the Examples artifact to fill.
            exec_properties: `input_base`, `input_config`, `output_config`, `range_config` as in
                TFX's FileBasedExampleGen, and the fields of `TextSettings`. Where TFX's driver
                ran, it has filled in spans; where none did, they are resolved here.

        Raises:
            InputError: the input is missing, malformed, or too much of it was rejected.
            ConfigError: a setting is not allowed.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        artifact = artifact_utils.get_single_instance(output_dict["examples"])
        uri = artifact.uri
        settings = TextSettings.from_properties(exec_properties)
        if settings.names_files:
            TableOfFilesExecutor.like(self).Do(input_dict, output_dict, exec_properties)
            return
        partition = partition_of(exec_properties)
        start_working(uri)
        located, pieces, reports, plan = self.plan(exec_properties, uri)
        check_outcome(
            plan.rejects,
            found=plan.found,
            written=sum(split.num_records for split in plan.splits),
            base=located.base,
            settings=settings,
            uri=uri,
            what="texts",
            looked_for=lambda: what_was_looked_for(list_names(located.base)),
        )
        encoded, shards = self._write(plan, pieces, reports, uri, settings)
        fingerprint = text_fingerprint(located, pieces, reports, plan)
        manifest = _manifest(plan, encoded, shards, settings, partition, fingerprint)
        describe_artifact(artifact, manifest, gzip=settings.gzip, vocabularies=plan.vocabularies)
        set_span(artifact, located, exec_properties)
        publish_dataset(
            uri,
            manifest,
            make_features(plan, encoded),
            vocabularies=plan.vocabularies,
            rejects=plan.rejects,
        )

    def plan(
        self, exec_properties: dict[str, Any], uri: str
    ) -> tuple[LocatedInputs, list[Piece], list[PieceReport], RowPlan]:
        """Finds the inputs, reads them once, and lays out their shards.

        Args:
            exec_properties: as `Do` takes; rows name no files.
            uri: of a folder to work in.

        Raises:
            InputError, ConfigError: as `Do`.
        """
        settings = TextSettings.from_properties(exec_properties)
        located = located_inputs(
            exec_properties, is_source_file=is_source_file, sees_siblings=False, unit="texts"
        )
        pieces, left_out = _find_pieces(located, settings, uri)
        reports = self._inspect(pieces, located.base, uri, settings)
        plan = plan_rows(
            pieces,
            reports,
            left_out,
            folder=working_folder(uri),
            partition=partition_of(exec_properties),
            settings=settings,
        )
        return located, pieces, reports, plan

    def _inspect(
        self, pieces: Sequence[Piece], base: str, uri: str, settings: TextSettings
    ) -> list[PieceReport]:
        work = {
            summary_name("inspect", number): Work(1, piece.size)
            for number, piece in enumerate(pieces)
        }
        with shown_progress(uri, work, unit="pieces"), self._make_beam_pipeline() as pipeline:
            pipeline | InspectPieces(pieces, base=base, uri=uri, settings=settings)  # type: ignore[operator]
        check_finished(uri, work)
        summaries = [
            read_summary(working_folder(uri), summary_name("inspect", number))
            for number in range(len(pieces))
        ]
        raise_reported(summaries, ["inspect"])
        return [PieceReport.from_json(summary) for summary in summaries]

    def _write(
        self,
        plan: RowPlan,
        pieces: Sequence[Piece],
        reports: Sequence[PieceReport],
        uri: str,
        settings: TextSettings,
    ) -> tuple[list[EncodingReport], list[Shard]]:
        work = {
            summary_name("encode", number): Work(report.kept, pieces[number].size)
            for number, report in enumerate(reports)
        }
        with shown_progress(uri, work, unit="rows"), self._make_beam_pipeline() as pipeline:
            pipeline | WriteRows(plan, len(pieces), uri=uri, settings=settings)  # type: ignore[operator]
        buckets = [summary_name("gather", number) for number in range(len(plan.buckets))]
        check_finished(uri, [*work, *buckets])
        folder = working_folder(uri)
        encoded = [
            EncodingReport(**read_summary(folder, summary_name("encode", number)))
            for number in range(len(pieces))
        ]
        gathered = [read_summary(folder, name) for name in buckets]
        return encoded, [Shard(**shard) for bucket in gathered for shard in bucket["shards"]]


def _find_pieces(
    located: LocatedInputs, settings: TextSettings, uri: str
) -> tuple[list[Piece], list[LeftOut]]:
    pieces: list[Piece] = []
    left_out: list[LeftOut] = []
    for inputs in layout_inputs(located, columns=settings.columns):
        some, others = find_pieces(inputs, settings, folder=working_folder(uri))
        if pieces:
            refuse_overlap(
                sorted({piece.source for piece in pieces if piece.source})
                + sorted({piece.source for piece in some if piece.source})
            )
        pieces += some
        left_out += others
    if not settings.header:
        headers = {p.source: p.details for p in pieces if p.details.get("header")}
        check_agreement(
            {source: details["names"] for source, details in headers.items()},
            shown=[s for s, details in headers.items() if details["header"] == "shown"],
        )
    return pieces, left_out


def _manifest(
    plan: RowPlan,
    encoded: Sequence[EncodingReport],
    shards: Sequence[Shard],
    settings: TextSettings,
    partition: Partition | None,
    fingerprint: str,
) -> Manifest:
    for split in plan.splits:
        if not split.num_records:
            logging.warning("split %r has no examples: it keeps one empty shard", split.name)
    return Manifest(
        shards=tuple(shards),
        accounting=account(
            [split.name for split in plan.splits],
            written={split.name: split.num_records for split in plan.splits},
            rejects=plan.rejects,
            skipped=plan.skipped,
        ),
        producer="TextExampleGen",
        config={**settings.for_manifest(), "splits": partition and dict(partition.buckets)},
        input_fingerprint=fingerprint,
        label_counts=_label_counts(plan, encoded),
        reject_counts=dict(collections.Counter(reject.code for reject in plan.rejects)),
        versions=package_versions(),
    )


def _label_counts(plan: RowPlan, encoded: Sequence[EncodingReport]) -> dict[str, dict[str, int]]:
    place = label_column(plan.columns)
    names = None if place is None else plan.vocabularies.get(plan.columns[place].name)
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for report in encoded:
        for split, labels in report.labels.items():
            for label, count in labels.items():
                counts[split][names[int(label)] if names else label] += count
    return {split: dict(labels) for split, labels in counts.items() if labels}
