"""Read the vocabularies of TFX's Transform, which writes none next to its examples."""

import os
from collections.abc import Mapping, Sequence

from trainer_utils.storage import is_folder, join, list_names, read_text

_EXAMPLES, _GRAPHS = "transformed_examples", "transform_graph"  # TFX's names of Transform's outputs


def is_transformed(uri: str) -> bool:
    """Return whether a dataset is in the folder of Transform's examples, as TFX places them."""
    return os.path.basename(os.path.dirname(uri.rstrip("/"))) == _EXAMPLES


def graph_of(uri: str) -> str:
    """Return the folder of the graph that the same run of Transform wrote."""
    run = os.path.dirname(os.path.dirname(uri.rstrip("/")))
    return join(run, f"{_GRAPHS}/{os.path.basename(uri.rstrip('/'))}")


def graph_vocabularies(graph: str) -> Mapping[str, Sequence[str]]:
    """Return the vocabularies that a Transform computed, by their file names.

    Source: `tensorflow_transform.compute_and_apply_vocabulary` writes one value per line.
    """
    folder = join(graph, "transform_fn/assets")
    if not is_folder(folder):
        return {}
    names = [name for name in list_names(folder) if not name.endswith((".gz", ".tfrecord"))]
    return {
        name.removesuffix(".txt"): read_text(join(folder, name)).removesuffix("\n").split("\n")
        for name in names
    }
