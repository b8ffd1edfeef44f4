"""AutoGraph without the conversion of tf_keras, which takes most of a short training."""


def leave_tf_keras_unconverted() -> None:
    """Make AutoGraph treat tf_keras like Keras 3: call it, instead of converting its source.

    Neither has Python conditions on tensors. Our code and a test's layers are still converted.
    """
    from tensorflow.python.autograph.core import config

    config.CONVERSION_RULES += (config.DoNotConvert("tf_keras"),)
