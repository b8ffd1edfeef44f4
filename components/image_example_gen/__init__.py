"""ImageExampleGen: folders or lists of images to sharded TFRecords."""
