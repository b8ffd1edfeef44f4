"""TFX's Trainer, with what a person changes between runs as parameters of their own.

trainer = Trainer(run_fn="pipelines.examples.image_trainer.run_fn", examples=…, batch_size=64,
                  train_steps=RuntimeParameter(name="train_steps", ptype=int, default=1000))

TFX's own keeps the batch size within `custom_config` and the steps within `train_args`, which a
runtime parameter can only replace as a whole.
"""

import json
from collections.abc import Mapping
from typing import Any

from tfx import types
from tfx.components.trainer.executor import GenericExecutor
from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration import data_types
from tfx.proto import trainer_pb2
from tfx.types import component_spec, standard_artifacts, standard_component_specs
from tfx.utils import json_utils, proto_utils

from components.common.settings import ExecProperties
from trainer_utils.format import ConfigError

__all__ = ["Executor", "Trainer"]

_Runtime = data_types.RuntimeParameter


class TrainerSpec(types.ComponentSpec):
    """TFX's parameters, inputs and outputs of a Trainer, and two parameters more."""

    PARAMETERS = {  # noqa: RUF012  TFX asks for it
        **standard_component_specs.TrainerSpec.PARAMETERS,
        "batch_size": component_spec.ExecutionParameter(type=int),
        "train_steps": component_spec.ExecutionParameter(type=int),
    }
    INPUTS = standard_component_specs.TrainerSpec.INPUTS
    OUTPUTS = standard_component_specs.TrainerSpec.OUTPUTS
    TYPE_ANNOTATION = standard_component_specs.TrainerSpec.TYPE_ANNOTATION


class Executor(GenericExecutor):
    """TFX's executor; the two parameters are handed on as TFX's own."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: ExecProperties,
    ) -> None:
        """Trains.

        Args:
            input_dict: `examples`, and what else TFX's Trainer takes.
            output_dict: `model` and `model_run`.
            exec_properties: those of TFX's Trainer, `batch_size` and `train_steps`.

        Raises:
            ConfigError: one of the two is negative.
        """
        super().Do(input_dict, output_dict, as_tfx_properties(exec_properties))


def as_tfx_properties(exec_properties: ExecProperties) -> ExecProperties:
    """Execution properties with the batch size in `custom_config`, the steps in `train_args`."""
    properties = dict(exec_properties)
    given = {name: properties.pop(name, None) or 0 for name in ("batch_size", "train_steps")}
    for name, value in given.items():
        if value < 0:
            raise ConfigError.of(name, value, allowed="at least 0")
    if given["batch_size"]:
        config = json.loads(properties.get("custom_config") or "null") or {}
        config["batch_size"] = given["batch_size"]
        properties["custom_config"] = json_utils.dumps(config)
    if given["train_steps"]:
        arguments = trainer_pb2.TrainArgs()
        proto_utils.json_to_proto(properties["train_args"], arguments)
        arguments.num_steps = given["train_steps"]
        properties["train_args"] = proto_utils.proto_to_json(arguments)
    return properties


class Trainer(base_component.BaseComponent):
    """TFX's Trainer of a `run_fn` that can be imported.

    Outputs:
        model: TFX's `Model`.
        model_run: TFX's `ModelRun`.
    """

    SPEC_CLASS = TrainerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        run_fn: str | _Runtime,
        schema: types.BaseChannel | None = None,
        batch_size: int | _Runtime = 0,
        train_steps: int | _Runtime = 0,
        custom_config: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes the component.

        Args:
            examples: with splits `train` and `eval`.
            run_fn: its path, such as `pipelines.examples.image_trainer.run_fn`.
            schema: TFX's, for `fn_args.schema_path`.
            batch_size: global, in records, for `fn_args.custom_config["batch_size"]`; 0: as
                `custom_config` or the module has it.
            train_steps: for `fn_args.train_steps`; 0: as the module has it.
            custom_config: for `fn_args.custom_config`.
        """
        spec = TrainerSpec(
            examples=examples,
            schema=schema,
            run_fn=run_fn,
            train_args=trainer_pb2.TrainArgs(splits=["train"]),
            eval_args=trainer_pb2.EvalArgs(splits=["eval"]),
            custom_config=json_utils.dumps(dict(custom_config or {})),
            batch_size=batch_size,
            train_steps=train_steps,
            model=types.Channel(type=standard_artifacts.Model),
            model_run=types.Channel(type=standard_artifacts.ModelRun),
        )
        super().__init__(spec=spec)
