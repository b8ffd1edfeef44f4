"""The functions of a user of TFX's stock components: a Transform, and a Trainer of few lines."""

import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform.tf_metadata import schema_utils
from tfx.utils import io_utils


def preprocessing_fn(inputs):
    """A number in [0, 1], and the label."""
    stars = tf.sparse.to_dense(inputs["stars"]) if hasattr(inputs["stars"], "indices") else None
    stars = inputs["stars"] if stars is None else stars
    return {
        "stars": tft.scale_to_0_1(tf.reshape(stars, [-1])),
        "label": tf.reshape(inputs["label"], [-1]),
        "made": tft.compute_and_apply_vocabulary(
            tf.where(tf.reshape(inputs["label"], [-1]) > 0, "good", "bad"), vocab_filename="made"
        ),
    }


class Model(tf.Module):
    """A threshold on the stars, learnt by gradient descent."""

    def __init__(self, transform_graph, raw_spec):
        super().__init__()
        self.weights = tf.Variable([0.0, 0.0])
        self._layer = transform_graph.transform_features_layer()
        self._raw_spec = raw_spec

    def probabilities(self, stars):
        return tf.sigmoid(self.weights[0] * stars + self.weights[1])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        raw = tf.io.parse_example(examples, self._raw_spec)
        return {"predictions": self.probabilities(self._layer(raw)["stars"])[:, tf.newaxis]}


def run_fn(fn_args):
    """Trains on what Transform made; the schema of the raw examples says how to serve."""
    schema = io_utils.SchemaReader().read(fn_args.schema_path)
    raw_spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    raw_spec.pop("label")
    graph = tft.TFTransformOutput(fn_args.transform_output)
    model = Model(graph, raw_spec)
    files = tf.io.gfile.glob(fn_args.train_files)
    records = tf.data.TFRecordDataset(files, compression_type="GZIP").batch(1000)
    spec = graph.transformed_feature_spec()
    batch = next(iter(records.map(lambda data: tf.io.parse_example(data, spec))))
    labels = tf.cast(batch["label"], tf.float32)
    for _ in range(300):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.keras.losses.binary_crossentropy(labels, model.probabilities(batch["stars"]))
            )
        model.weights.assign_sub(5.0 * tape.gradient(loss, model.weights))
    tf.saved_model.save(
        model, fn_args.serving_model_dir, signatures={"serving_default": model.serve}
    )
