"""AudioExampleGen: folders or lists of audio files to sharded TFRecords."""
