"""One feature exchanged, as TensorFlow's own messages see it."""

import pytest
import tensorflow as tf

from components.shuffle.example_editing import replace_feature
from trainer_utils.format import DatasetError


def feature(value):
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def example(**values):
    features = tf.train.Features(feature={name: feature(value) for name, value in values.items()})
    return tf.train.Example(features=features)


def test_the_one_feature_is_another_and_all_else_stays():
    for values in ({"label": 7, "image": b"x" * 300}, {"image": b"x"}, {}):
        record = example(**values).SerializeToString()
        for value in (3, -(2**63), 0.5, b"", b"lynx" * 100):
            changed = replace_feature(record, "label", value)
            assert tf.train.Example.FromString(changed) == example(**{**values, "label": value})
            kind = {int: tf.int64, float: tf.float32}.get(type(value), tf.string)
            parsed = tf.io.parse_single_example(changed, {"label": tf.io.FixedLenFeature([], kind)})
            assert parsed["label"].numpy() == value


def test_lists_and_features_without_values_stay():
    made = tf.train.SequenceExample(context=example(label=1).features)
    made.context.feature["empty"].SetInParent()
    made.feature_lists.feature_list["steps"].feature.append(feature(4))
    changed = tf.train.SequenceExample.FromString(
        replace_feature(made.SerializeToString(), "label", 5)
    )
    made.context.feature["label"].CopyFrom(feature(5))
    assert changed == made


def test_of_a_feature_that_stands_there_twice_one_is_left():
    record = example(label=1).SerializeToString() + example(label=2, a=3).SerializeToString()
    changed = replace_feature(record, "label", 9)
    assert tf.train.Example.FromString(changed) == example(label=9, a=3)
    assert changed.count(b"label") == 1


def test_what_is_no_example_is_refused():
    with pytest.raises(DatasetError, match=r"expected a tf\.train\.Example"):
        replace_feature(b"\x0a\xff", "label", 3)
