"""ResNet-50 and its training step, in PyTorch and in JAX, for `feed_gpu.py`.

A trainer takes batches of photos, `(batch, 224, 224, 3) uint8` (channels first in PyTorch), and
labels. `step` starts a training step, and `wait` returns when all steps are done. Normalisation is
part of the step, as on a real trainer.

Source: "Deep Residual Learning for Image Recognition", He et al., 2015, table 1; the stride is on
the 3 x 3 convolution, as in torchvision's ResNet-50 (v1.5).
"""

from typing import Any, NamedTuple

_EXPANSION = 4
_MEAN, _STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_RATE, _MOMENTUM = 0.1, 0.9


class Architecture(NamedTuple):
    """The blocks of each of the four stages, the channels of the first, and the classes."""

    blocks: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    classes: int = 1000


RESNET_50 = Architecture()
TINY = Architecture((1, 1), 4, 10)


class TorchTrainer:
    """ResNet in PyTorch, in bfloat16 and `channels_last` on a GPU."""

    def __init__(self, architecture: Architecture, *, compiled: bool) -> None:
        import torch

        self._torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.name = torch.cuda.get_device_name() if self.device == "cuda" else "CPU"
        torch.backends.cudnn.benchmark = True
        model = _torch_resnet(architecture).to(self.device, memory_format=torch.channels_last)
        self._optimizer = torch.optim.SGD(model.parameters(), lr=_RATE, momentum=_MOMENTUM)
        self._model = torch.compile(model) if compiled else model
        self._mean, self._std = (
            torch.tensor(values, device=self.device).view(1, 3, 1, 1) for values in (_MEAN, _STD)
        )

    def step(self, images: Any, labels: Any) -> None:
        torch = self._torch
        images = images.to(self.device, non_blocking=True)
        labels = labels.to(self.device, non_blocking=True)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            pixels = (images.float() - self._mean) / self._std
            loss = torch.nn.functional.cross_entropy(self._model(pixels), labels)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()

    def wait(self) -> None:
        if self.device == "cuda":
            self._torch.cuda.synchronize()

    def keep(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Return a batch on the device, to train on repeatedly."""
        return images.to(self.device), labels.to(self.device)


def _torch_resnet(architecture: Architecture) -> Any:
    from torch import nn

    def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> list[Any]:
        padding = size // 2
        layer = nn.Conv2d(inputs, outputs, size, stride, padding, bias=False)
        return [layer, nn.BatchNorm2d(outputs)]

    class Block(nn.Module):
        def __init__(self, inputs: int, channels: int, stride: int) -> None:
            super().__init__()
            outputs = channels * _EXPANSION
            self.body = nn.Sequential(
                *convolution(inputs, channels, 1),
                nn.ReLU(inplace=True),
                *convolution(channels, channels, 3, stride),
                nn.ReLU(inplace=True),
                *convolution(channels, outputs, 1),
            )
            self.shortcut = nn.Sequential()
            if stride > 1 or inputs != outputs:
                self.shortcut = nn.Sequential(*convolution(inputs, outputs, 1, stride))

        def forward(self, values: Any) -> Any:
            return nn.functional.relu(self.body(values) + self.shortcut(values))

    width = architecture.width
    layers = [*convolution(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, count in enumerate(architecture.blocks):
        for block in range(count):
            channels = width << stage
            layers.append(Block(inputs, channels, 2 if stage and not block else 1))
            inputs = channels * _EXPANSION
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, architecture.classes)]
    return nn.Sequential(*layers, *head)


class JaxTrainer:
    """ResNet in JAX, in bfloat16; normalisation by the statistics of the batch."""

    def __init__(self, architecture: Architecture) -> None:
        import jax

        self._jax = jax
        self.device = jax.devices()[0]
        self.name = self.device.device_kind
        self._weights = _jax_weights(architecture)
        self._momenta = jax.tree.map(lambda array: array * 0, self._weights)
        forward = _jax_forward(architecture)

        def step(weights: Any, momenta: Any, images: Any, labels: Any) -> Any:
            gradients = jax.grad(forward)(weights, images, labels)
            momenta = jax.tree.map(lambda old, new: _MOMENTUM * old + new, momenta, gradients)
            return jax.tree.map(lambda w, m: w - _RATE * m, weights, momenta), momenta

        self._step = jax.jit(step, donate_argnums=(0, 1))

    def step(self, images: Any, labels: Any) -> None:
        self._weights, self._momenta = self._step(self._weights, self._momenta, images, labels)

    def wait(self) -> None:
        self._jax.block_until_ready(self._weights)

    def keep(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Return a batch on the device, to train on repeatedly."""
        return images, labels


def _jax_blocks(architecture: Architecture) -> list[tuple[int, int, int]]:
    """Return the input channels, inner channels and stride of each block."""
    inputs, blocks = architecture.width, []
    for stage, count in enumerate(architecture.blocks):
        for block in range(count):
            channels = architecture.width << stage
            blocks.append((inputs, channels, 2 if stage and not block else 1))
            inputs = channels * _EXPANSION
    return blocks


def _jax_weights(architecture: Architecture) -> dict[str, Any]:
    import jax

    key = jax.random.key(0)
    weights: dict[str, Any] = {}

    def add(name: str, *shape: int) -> None:
        nonlocal key
        key, drawn = jax.random.split(key)
        fan = max(1, shape[0] * shape[1] * shape[2] if len(shape) == 4 else shape[0])
        weights[name] = jax.random.normal(drawn, shape) * (2 / fan) ** 0.5
        if len(shape) == 4:
            weights[f"{name}/scale"] = jax.numpy.ones(shape[-1])
            weights[f"{name}/shift"] = jax.numpy.zeros(shape[-1])

    add("stem", 7, 7, 3, architecture.width)
    outputs = architecture.width
    for number, (inputs, channels, stride) in enumerate(_jax_blocks(architecture)):
        outputs = channels * _EXPANSION
        add(f"{number}/in", 1, 1, inputs, channels)
        add(f"{number}/middle", 3, 3, channels, channels)
        add(f"{number}/out", 1, 1, channels, outputs)
        if stride > 1 or inputs != outputs:
            add(f"{number}/shortcut", 1, 1, inputs, outputs)
    add("head", outputs, architecture.classes)
    return weights


def _jax_forward(architecture: Architecture) -> Any:
    import jax
    from jax import lax
    from jax import numpy as jnp

    def convolve(weights: Any, name: str, values: Any, stride: int = 1) -> Any:
        dimensions = ("NHWC", "HWIO", "NHWC")
        kernel = weights[name].astype(jnp.bfloat16)
        values = lax.conv_general_dilated(
            values, kernel, (stride, stride), "SAME", dimension_numbers=dimensions
        ).astype(jnp.float32)
        mean, variance = values.mean((0, 1, 2)), values.var((0, 1, 2))
        values = (values - mean) * lax.rsqrt(variance + 1e-5)
        values = values * weights[f"{name}/scale"] + weights[f"{name}/shift"]
        return values.astype(jnp.bfloat16)

    def forward(weights: Any, images: Any, labels: Any) -> Any:
        pixels = (images.astype(jnp.float32) - jnp.array(_MEAN)) / jnp.array(_STD)
        values = jax.nn.relu(convolve(weights, "stem", pixels.astype(jnp.bfloat16), 2))
        values = lax.reduce_window(
            values, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
        ).astype(jnp.bfloat16)
        for number, (inputs, channels, stride) in enumerate(_jax_blocks(architecture)):
            inner = jax.nn.relu(convolve(weights, f"{number}/in", values))
            inner = jax.nn.relu(convolve(weights, f"{number}/middle", inner, stride))
            inner = convolve(weights, f"{number}/out", inner)
            if stride > 1 or inputs != channels * _EXPANSION:
                values = convolve(weights, f"{number}/shortcut", values, stride)
            values = jax.nn.relu(inner + values)
        logits = values.astype(jnp.float32).mean((1, 2)) @ weights["head"]
        rows = jnp.arange(len(labels))
        return -jax.nn.log_softmax(logits)[rows, labels].mean()

    return forward
