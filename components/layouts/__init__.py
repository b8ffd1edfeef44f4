"""What a folder of images or texts means: each layout from files to a table of inputs."""
