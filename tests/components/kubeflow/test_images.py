"""`using_image`, wherever it stands: it has an effect, or it is refused."""

import contextlib
from pathlib import Path

import pytest
import yaml
from kfp import compiler, components, dsl

from components.kubeflow import image_example_gen, using_image
from trainer_utils.format import ConfigError

CHOSEN = "example/chosen:1"


@dsl.pipeline(name="inner")
def inner(input_base: str):
    image_example_gen(input_base=input_base)


def loaded(made, folder: Path):
    compiler.Compiler().compile(made, str(folder / "made.yaml"))
    return components.load_component_from_file(str(folder / "made.yaml"))


PARTS = {
    "a component": lambda folder: image_example_gen,
    "a pipeline": lambda folder: inner,
    "a component that was loaded": lambda folder: loaded(image_example_gen, folder),
    "a pipeline that was loaded": lambda folder: loaded(inner, folder),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("place", ["definition", "compile"])
def test_it_holds_for_whatever_is_ours(tmp_path, part, place):
    def chosen(here: str):
        return using_image(CHOSEN) if here == place else contextlib.nullcontext()

    made = PARTS[part](tmp_path)
    with chosen("definition"):

        @dsl.pipeline(name="outer")
        def outer(folder: str):
            made(input_base=folder)

    with chosen("compile"):
        compiler.Compiler().compile(pipeline_func=outer, package_path=str(tmp_path / "p.yaml"))
    executors = yaml.safe_load((tmp_path / "p.yaml").read_text())["deploymentSpec"]["executors"]
    assert {executor["container"]["image"] for executor in executors.values()} == {CHOSEN}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_keeps_its_image_for_those_who_choose_none(tmp_path, part):
    made = PARTS[part](tmp_path)
    before = str(made.pipeline_spec)
    with using_image(CHOSEN):
        dsl.pipeline(lambda: made(input_base="/photos") and None, name="p")
    assert str(made.pipeline_spec) == before
    assert CHOSEN not in before


def test_around_lines_where_it_can_do_nothing_it_is_refused():
    refusal = rf"using_image\('{CHOSEN}'\): expected a pipeline"
    with pytest.raises(ConfigError, match=refusal), using_image(CHOSEN):
        sorted([2, 1])
    with pytest.raises(KeyError, match="what happened"), using_image(CHOSEN):
        raise KeyError("what happened")
    with using_image(CHOSEN, is_needed=False):
        pass
