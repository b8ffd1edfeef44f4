"""A flag for every setting of the ExampleGens and of ShardBalancer, made from its declaration.

@click.command(cls=CommandWithSettings)
def convert(**given): settings = given_settings(given)
"""

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from pipelines.cli.values import Bytes, Choices, Counts, Names, Pair
from trainer_utils.format.settings import Setting

__all__ = ["CommandWithSettings", "balancer_section", "given_settings"]

# Where the flag is not the setting's name: what is repeated is in the singular.
_FLAGS = {
    **{"columns": "--column", "column_names": "--columns", "image_roots": "--image-root"},
    **{"tensors": "--tensor", "feature_names": "--feature-name"},
}
_OTHER_KINDS: dict[str, dict[str, Any]] = {
    "columns": {"type": Pair(), "multiple": True},
    "image_roots": {"multiple": True, "metavar": "DIR"},
    "tensors": {"type": Pair(), "multiple": True, "metavar": "NAME=DTYPE[SHAPE]"},
    "feature_names": {"type": Pair(), "multiple": True, "metavar": "NAME=NAME"},
    "num_shards": {"type": Counts(bare=True), "metavar": "N or NAME=N,…"},
    "encoding": {"type": click.STRING},  # of images or of texts
    "layout": {"type": click.STRING},  # of any of the three
    "exclude": {"type": click.STRING, "metavar": "FILE"},
    "relabel": {"type": click.STRING, "metavar": "CSV"},
    "add": {"multiple": True, "metavar": "URI"},
}
_HAS_COMPONENTS = importlib.util.find_spec("tfx") is not None


Sections = Mapping[str, Mapping[str, Any]]


def _sections() -> Sections:
    """The declared settings by name, by the component that they are of."""
    from components.example_gen.settings import (
        AudioSettings,
        ExampleGenSettings,
        ImageSettings,
        TextSettings,
    )
    from components.shard_balancer.settings import BalancerSettings
    from trainer_utils.format.settings import settings_of

    images, balancer = ImageSettings.described(), BalancerSettings.described()
    shared = {name: images[name] for name in settings_of(ExampleGenSettings)}
    kinds = {"Image": ImageSettings, "Text": TextSettings, "Audio": AudioSettings}
    own = {f"{kind}ExampleGen": _own(s.described(), shared) for kind, s in kinds.items()}
    return {
        "all ExampleGens": _without(shared, ["target_shard_bytes"]),
        **own,
        "ShardBalancer": _without(balancer, ["seed", "compression"]),
    }


def balancer_section() -> Sections:
    """The settings of ShardBalancer alone."""
    from components.shard_balancer.settings import BalancerSettings

    return {"ShardBalancer": BalancerSettings.described()}


def _own(settings: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """What one kind has alone, or says more of; the layout is explained once for all."""
    return {
        name: one
        for name, one in settings.items()
        if name not in shared or (name != "layout" and one.sentence != shared[name].sentence)
    }


def _without(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: one for name, one in settings.items() if name not in [*names]}


class CommandWithSettings(click.Command):
    """A command with a flag for every setting, in sections of its help.

    Where TFX is not installed there are no settings either: any flag is taken, so that the command
    can say what is missing.

    Args:
        sections: gives the settings by name, by the component that they are of. None: those of the
            ExampleGens and of ShardBalancer.
    """

    def __init__(
        self, *arguments: Any, sections: Callable[[], Sections] | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._sections = (sections or _sections)() if _HAS_COMPONENTS else {}
        if not _HAS_COMPONENTS:
            tolerant = {"ignore_unknown_options": True, "allow_extra_args": True}
            self.context_settings = {**self.context_settings, **tolerant}
        declared = {n: one for settings in self._sections.values() for n, one in settings.items()}
        self._flags = {name: _flag(name, one) for name, one in declared.items()}
        self.params += self._flags.values()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the command's own options, then the settings by component."""
        flags = self._flags.values()
        own = [p for p in self.get_params(ctx) if isinstance(p, click.Option) and p not in flags]
        with formatter.section("Options"):
            formatter.write_dl([record for p in own if (record := p.get_help_record(ctx))])
        for title, settings in self._sections.items():
            with formatter.section(f"Settings of {title}"):
                formatter.write_dl(
                    [(self._usage(name, ctx), _help(one)) for name, one in settings.items()]
                )

    def _usage(self, name: str, ctx: click.Context) -> str:
        record = self._flags[name].get_help_record(ctx)
        assert record is not None
        return record[0]


def _flag(name: str, one: Setting) -> click.Option:
    spelling = _FLAGS.get(name, f"--{name.replace('_', '-')}")
    if bool in one.kinds:
        if one.default is not False:
            spelling = f"{spelling}/--no-{name.replace('_', '-')}"
        return click.Option([spelling, name], is_flag=True, default=None)
    return click.Option([spelling, name], **_OTHER_KINDS.get(name, {"type": _type(one)}))


def _type(one: Setting) -> click.ParamType:
    """What a flag takes; whether the value is allowed the setting itself says."""
    if one.is_collection:
        return Names()
    if one.kinds == (str,) and one.choices:
        return Choices([str(choice) for choice in one.choices if choice is not None])
    if one.name.endswith("_bytes"):
        return Bytes()
    kinds: dict[type, click.ParamType] = {int: click.INT, float: click.FLOAT}
    return kinds.get(one.kinds[0], click.STRING)


def _help(one: Setting) -> str:
    sentence = (one.sentence[0].upper() + one.sentence[1:]).replace("`", "")
    return f"{sentence} Default: {one.shown_default}." if one.default else sentence


def given_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the flags that were given, as `pipelines.convert` takes them."""
    settings = {name: value for name, value in given.items() if value not in (None, ())}
    for name in ("columns", "tensors", "feature_names"):
        if name in settings:
            settings[name] = dict(settings[name])
    for name in ("image_roots", "add"):
        if name in settings:
            settings[name] = list(settings[name])
    return settings
