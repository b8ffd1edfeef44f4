"""Texts and tables to sharded TFRecords of `tf.train.Example`."""
