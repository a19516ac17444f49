# SPDX-License-Identifier: Apache-2.0
"""Writes torch_dynamo.zip and torch_script.zip: blocks of published networks through the exporters
of PyTorch.

pip install -e . torch==2.13.0 onnxscript onnxruntime
python tests/zoo/export_torch.py
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves

from vdla.verification.zoo.archive import FOLDER, Entry, Input, Writer, onnxruntime_outputs, without_traces

DTYPES = {torch.float32: "float32", torch.int64: "int64", torch.bool: "bool", torch.int32: "int32"}


def image(channels: int = 3, side: int = 16, batch: int = 1) -> torch.Tensor:
    return torch.zeros(batch, channels, side, side)


def sequence(length: int = 10, width: int = 16, batch: int = 1) -> torch.Tensor:
    return torch.zeros(batch, length, width)


def words(length: int = 8, batch: int = 1) -> torch.Tensor:
    return torch.zeros(batch, length, dtype=torch.int64)


class Function(nn.Module):
    """A function of tensors and sub-modules."""

    def __init__(self, function: Callable[..., object], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.function(self, *inputs)


def conv(inputs: int, outputs: int, kernel: int = 3, act: nn.Module | None = None, **options: object) -> nn.Sequential:
    pads = options.pop("padding", kernel // 2)
    layers = [nn.Conv2d(inputs, outputs, kernel, padding=pads, bias=False, **options), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, act if act is not None else nn.ReLU())


def head(channels: int, classes: int = 10) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


class Residual(nn.Module):
    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None, act: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.shortcut, self.act = body, shortcut or nn.Identity(), act or nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.body(x) + self.shortcut(x))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, gate: nn.Module, act: nn.Module) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)
        self.gate, self.act = gate, act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(self.up(self.act(self.down(F.adaptive_avg_pool2d(x, 1)))))


def inverted(inputs: int, outputs: int, wide: int, act: nn.Module, stride: int = 1, excite: bool = False) -> nn.Module:
    layers = [conv(inputs, wide, 1, act), conv(wide, wide, 3, act, groups=wide, stride=stride)]
    if excite:
        layers.append(SqueezeExcite(wide, nn.Hardsigmoid(), nn.ReLU()))
    body = nn.Sequential(*layers, nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
    return Residual(body) if stride == 1 and inputs == outputs else body


class Shuffle(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            conv(half, half, 1), conv(half, half, 3, nn.Identity(), groups=half), conv(half, half, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, 1)
        x = torch.cat((left, self.branch(right)), 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Dense(nn.Module):
    def __init__(self, channels: int, growth: int, layers: int) -> None:
        super().__init__()
        widths = [channels + growth * index for index in range(layers)]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, growth, 3, padding=1)) for width in widths
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cat((x, layer(x)), 1)
        return x


class ConvNext(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class C2f(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.first = conv(channels, channels, 1, nn.SiLU())
        self.block = nn.Sequential(conv(half, half, 3, nn.SiLU()), conv(half, half, 3, nn.SiLU()))
        self.last = conv(channels + half, channels, 1, nn.SiLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.first(x).chunk(2, 1))
        parts.append(parts[-1] + self.block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Pooling of three sizes side by side, as detectors end their backbones."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.last = conv(channels, channels // 2, 1, nn.SiLU()), conv(channels * 2, channels, 1, nn.SiLU())
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class YoloHead(nn.Module):
    """Distances to the sides of boxes as expectations over bins, and scores."""

    def __init__(self, channels: int, bins: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.bins = bins
        self.box, self.score = nn.Conv2d(channels, 4 * bins, 1), nn.Conv2d(channels, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        box, score = self.box(x).flatten(2), self.score(x).flatten(2)
        n, _, anchors = box.shape
        weights = box.view(n, 4, self.bins, anchors).softmax(2)
        steps = torch.arange(self.bins, dtype=torch.float32).view(1, 1, self.bins, 1)
        sides = (weights * steps).sum(2)
        rows = torch.arange(x.shape[2], dtype=torch.float32) + 0.5
        y, x_ = torch.meshgrid(rows, rows, indexing="ij")
        centre = torch.stack((x_.flatten(), y.flatten())).unsqueeze(0)
        low, high = centre - sides[:, :2], centre + sides[:, 2:]
        return torch.cat(((low + high) / 2, high - low, score.sigmoid()), 1)


class UNet(nn.Module):
    def __init__(self, up: str) -> None:
        super().__init__()
        self.down1, self.down2, self.last = conv(3, 8), conv(8, 16), conv(16 + 8, 8)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2) if up == "transpose" else nn.Upsample(scale_factor=2, mode=up)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.down1(x)
        return self.out(self.last(torch.cat((self.up(self.down2(F.max_pool2d(fine, 2))), fine), 1)))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = False, fused: bool = False) -> None:
        super().__init__()
        self.heads, self.causal, self.fused = heads, causal, fused
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        split = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = split[0], split[1], split[2]
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
            if self.causal:
                mask = torch.ones(length, length, dtype=torch.bool).tril()
                scores = scores.masked_fill(~mask, float("-inf"))
            y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, length, width))


def transformer(
    width: int = 16, norm: type[nn.Module] = nn.LayerNorm, act: nn.Module | None = None, **options: bool
) -> nn.Sequential:
    mlp = nn.Sequential(norm(width), nn.Linear(width, 32), act or nn.GELU(), nn.Linear(32, width))
    return nn.Sequential(Residual(nn.Sequential(norm(width), Attention(width, 4, **options))), Residual(mlp))


class Rotary(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("rate", 1.0 / 100 ** (torch.arange(0, width, 2).float() / width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        angle = torch.arange(x.shape[1]).float()[:, None] * self.rate
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat((-right, left), -1) * sin


class Mixer(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, 12), nn.GELU(), nn.Linear(12, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Patches(nn.Module):
    """A vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 16, 4, 4)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, 16)), nn.Parameter(torch.randn(1, 17, 16))
        self.block, self.head = transformer(), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.head(self.block(x)[:, 0])


class Text(nn.Module):
    """Embedded words with places through one block."""

    def __init__(self, block: nn.Module, vocabulary: int = 40, length: int = 8) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, 16), nn.Embedding(length, 16)
        self.block, self.norm, self.head = block, nn.LayerNorm(16), nn.Linear(16, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])
        return self.head(self.norm(self.block(self.words(x) + self.places(places))))


class Wave(nn.Module):
    """Dilated causal convolutions in one dimension with gates."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 2, dilation=2**i) for i in range(3))
        self.out = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = 0
        for index, (layer, out) in enumerate(zip(self.layers, self.out, strict=True)):
            value, gate = layer(F.pad(x, (2**index, 0))).chunk(2, 1)
            y = out(value.tanh() * gate.sigmoid())
            x, total = x + y, total + y
        return F.relu(total)


class Last(nn.Module):
    """The output of the last step of a recurrent layer, through a linear one."""

    def __init__(self, layer: nn.Module, width: int, whole: bool = False) -> None:
        super().__init__()
        self.layer, self.head, self.whole = layer, nn.Linear(width, 5), whole

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.layer(x)
        return self.head(y if self.whole else y[:, -1])


def activations() -> dict[str, nn.Module]:
    names = "ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Hardswish Hardsigmoid Sigmoid Tanh Softplus Softsign"
    named = {name.lower(): getattr(nn, name)() for name in names.split()}
    return named | {
        "prelu": nn.PReLU(4),
        "gelu_tanh": nn.GELU("tanh"),
        "hardtanh": nn.Hardtanh(-2, 2),
        "logsigmoid": nn.LogSigmoid(),
        "threshold": nn.Threshold(0.1, 0.0),
        "softshrink": nn.Softshrink(),
        "hardshrink": nn.Hardshrink(),
        "tanhshrink": nn.Tanhshrink(),
        "glu": nn.GLU(1),
    }


def blocks() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    x, s = image(), sequence()
    swish, hard = nn.SiLU(), nn.Hardswish()
    made: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
        f"conv_{name}": (
            nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), act, nn.Conv2d(2 if name == "glu" else 4, 4, 1)),
            (x,),
        )
        for name, act in activations().items()
    }
    networks: dict[str, nn.Module] = {
        "lenet": nn.Sequential(
            nn.Conv2d(3, 6, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 8, 3),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(128, 10),
        ),
        "alexnet": nn.Sequential(
            nn.Conv2d(3, 8, 5, 2, 2),
            nn.ReLU(),
            nn.LocalResponseNorm(3),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(8, 8, 3, padding=1, groups=2),
            nn.ReLU(),
            nn.Dropout(),
            *head(8),
        ),
        "vgg": nn.Sequential(
            conv(3, 8),
            conv(8, 8),
            nn.MaxPool2d(2),
            conv(8, 16),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256, 16),
            nn.ReLU(),
            nn.Linear(16, 10),
        ),
        "resnet": nn.Sequential(
            conv(3, 8),
            Residual(nn.Sequential(conv(8, 8), conv(8, 8, act=nn.Identity())), act=nn.ReLU()),
            Residual(
                nn.Sequential(conv(8, 16, stride=2), conv(16, 16, act=nn.Identity())),
                conv(8, 16, 1, nn.Identity(), stride=2),
                nn.ReLU(),
            ),
            *head(16),
        ),
        "resnet_bottleneck": nn.Sequential(
            conv(3, 16),
            Residual(nn.Sequential(conv(16, 4, 1), conv(4, 4), conv(4, 16, 1, nn.Identity())), act=nn.ReLU()),
            *head(16),
        ),
        "resnext": nn.Sequential(
            conv(3, 16),
            Residual(
                nn.Sequential(conv(16, 16, 1), conv(16, 16, groups=4), conv(16, 16, 1, nn.Identity())), act=nn.ReLU()
            ),
            *head(16),
        ),
        "preactivation": nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            Residual(
                nn.Sequential(
                    nn.BatchNorm2d(8),
                    nn.ReLU(),
                    nn.Conv2d(8, 8, 3, padding=1),
                    nn.BatchNorm2d(8),
                    nn.ReLU(),
                    nn.Conv2d(8, 8, 3, padding=1),
                )
            ),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            *head(8),
        ),
        "densenet": nn.Sequential(
            conv(3, 8), Dense(8, 4, 3), nn.BatchNorm2d(20), nn.ReLU(), nn.Conv2d(20, 8, 1), nn.AvgPool2d(2), *head(8)
        ),
        "mobilenet_v1": nn.Sequential(
            conv(3, 8, stride=2),
            conv(8, 8, groups=8),
            conv(8, 16, 1),
            conv(16, 16, groups=16, stride=2),
            conv(16, 16, 1),
            *head(16),
        ),
        "mobilenet_v2": nn.Sequential(
            conv(3, 8, act=nn.ReLU6()), inverted(8, 8, 24, nn.ReLU6()), inverted(8, 12, 24, nn.ReLU6(), 2), *head(12)
        ),
        "mobilenet_v3": nn.Sequential(
            conv(3, 8, act=hard),
            inverted(8, 8, 16, hard, excite=True),
            inverted(8, 12, 24, hard, 2, True),
            *head(12)[:2],
            nn.Linear(12, 16),
            hard,
            nn.Linear(16, 10),
        ),
        "efficientnet": nn.Sequential(
            conv(3, 8, act=swish),
            Residual(
                nn.Sequential(
                    conv(8, 16, 1, swish),
                    conv(16, 16, 3, swish, groups=16),
                    SqueezeExcite(16, nn.Sigmoid(), swish),
                    nn.Conv2d(16, 8, 1),
                    nn.BatchNorm2d(8),
                )
            ),
            *head(8),
        ),
        "shufflenet": nn.Sequential(conv(3, 8), Shuffle(8), Shuffle(8), *head(8)),
        "convnext": nn.Sequential(nn.Conv2d(3, 8, 4, 4), ConvNext(8), *head(8)),
        "inception": Function(
            lambda m, x: torch.cat((m.a(x), m.b(x), m.c(F.avg_pool2d(x, 3, 1, 1))), 1),
            a=conv(3, 4, 1),
            b=nn.Sequential(conv(3, 4, 1), conv(4, 4, 5)),
            c=conv(3, 4, 1),
        ),
        "squeezenet": nn.Sequential(
            conv(3, 8),
            Function(
                lambda m, x: torch.cat((m.one(m.squeeze(x)), m.three(m.squeeze(x))), 1),
                squeeze=conv(8, 4, 1),
                one=conv(4, 8, 1),
                three=conv(4, 8),
            ),
            nn.Conv2d(16, 10, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ),
        "ghost": nn.Sequential(
            conv(3, 8),
            Function(
                lambda m, x: (lambda y: torch.cat((y, m.cheap(y)), 1))(m.main(x)),
                main=conv(8, 8, 1),
                cheap=conv(8, 8, groups=8),
            ),
            *head(16),
        ),
        "c2f": nn.Sequential(conv(3, 8, act=swish, stride=2), C2f(8), *head(8)),
        "sppf": nn.Sequential(conv(3, 8, act=swish), Pyramid(8), *head(8)),
        "yolo_head": nn.Sequential(conv(3, 8, act=swish, stride=4), YoloHead(8)),
        "unet_transpose": UNet("transpose"),
        "unet_nearest": UNet("nearest"),
        "unet_bilinear": UNet("bilinear"),
        "super_resolution": nn.Sequential(conv(3, 8), nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2)),
        "space_to_depth": nn.Sequential(nn.PixelUnshuffle(2), conv(12, 8), *head(8)),
        "autoencoder": nn.Sequential(
            conv(3, 4, stride=2),
            conv(4, 8, stride=2),
            nn.ConvTranspose2d(8, 4, 3, 2, 1, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(4, 3, 4, 2, 1),
            nn.Sigmoid(),
        ),
        "dilated": nn.Sequential(conv(3, 8, dilation=2, padding=2), conv(8, 8, dilation=3, padding=3), *head(8)),
        "atrous_pyramid": Function(
            lambda m, x: m.out(
                torch.cat((m.a(x), m.b(x), F.interpolate(m.c(F.adaptive_avg_pool2d(x, 1)), size=(16, 16))), 1)
            ),
            a=conv(3, 4, 1),
            b=conv(3, 4, dilation=2, padding=2),
            c=nn.Conv2d(3, 4, 1),
            out=nn.Conv2d(12, 2, 1),
        ),
        "group_norm": nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.ReLU(), *head(8)),
        "instance_norm": nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.ReflectionPad2d(1), nn.Conv2d(8, 3, 3)
        ),
        "asymmetric": nn.Sequential(
            nn.Conv2d(3, 8, (1, 5), padding=(0, 2)),
            nn.ReLU(),
            nn.Conv2d(8, 8, (5, 1), (2, 1), padding=(2, 0)),
            nn.ReLU(),
            *head(8),
        ),
        "one_sided_pad": nn.Sequential(
            nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), *head(8)
        ),
        "replicated": nn.Sequential(
            nn.ReplicationPad2d(2),
            nn.Conv2d(3, 4, 5),
            nn.ReLU(),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            *head(4),
        ),
        "lp_pool": nn.Sequential(conv(3, 4), nn.LPPool2d(2, 2), *head(4)),
        "adaptive_pools": Function(
            lambda m, x: torch.cat(
                (F.adaptive_avg_pool2d(m.c(x), 4).flatten(1), F.adaptive_max_pool2d(m.c(x), 2).flatten(1)), 1
            ),
            c=conv(3, 4),
        ),
        "style": Function(
            lambda m, x: (lambda y: torch.bmm(y, y.transpose(1, 2)) / 256)(m.c(x).flatten(2)), c=conv(3, 8)
        ),
        "attention_gate": Function(
            lambda m, x: (
                lambda y: y * torch.sigmoid(y.mean(1, keepdim=True)) * torch.sigmoid(y.amax(1, keepdim=True))
            )(m.c(x)),
            c=conv(3, 8),
        ),
        "norm_as_arithmetic": Function(
            lambda m, x: m.out(
                F.relu((m.c(x) - m.mean.weight.view(1, 8, 1, 1)) * m.scale.weight.view(1, 8, 1, 1) + 0.5)
            ),
            c=nn.Conv2d(3, 8, 3),
            mean=nn.Linear(1, 8),
            scale=nn.Linear(1, 8),
            out=nn.Conv2d(8, 4, 1),
        ),
        "vision_transformer": Patches(),
        "roll_windows": Function(
            lambda m, x: torch.roll(m.c(x), (2, 2), (2, 3)).unfold(2, 4, 4).unfold(3, 4, 4).amax((4, 5)), c=conv(3, 4)
        ),
        "region_scores": Function(
            lambda m, x: (lambda y: (y.flatten(2).amax(2), y.flatten(2).argmax(2)))(m.c(x)), c=nn.Conv2d(3, 4, 3)
        ),
        "top_boxes": Function(lambda m, x: torch.topk(m.c(x).flatten(1).sigmoid(), 5), c=nn.Conv2d(3, 4, 5)),
        "soft_argmax": Function(
            lambda m, x: (F.softmax(m.c(x).flatten(2), -1) * torch.linspace(-1, 1, 196)).sum(-1), c=nn.Conv2d(3, 4, 3)
        ),
        "grid_sample": Function(
            lambda m, x: F.grid_sample(
                x, F.affine_grid(m.t.weight.view(1, 2, 3), (1, 3, 8, 8), align_corners=False), align_corners=False
            ),
            t=nn.Linear(1, 6),
        ),
        "crop_and_pad": Function(
            lambda m, x: F.pad(m.c(x)[:, :, 2:-2, 1::2], (1, 2, 0, 1), value=0.5), c=nn.Conv2d(3, 4, 3)
        ),
        "einsum": Function(lambda m, x: torch.einsum("nchw,nkhw->nck", m.c(x), m.c(x)), c=nn.Conv2d(3, 4, 3)),
        "cumulated": Function(lambda m, x: m.c(x).cumsum(2).clamp(-3, 3), c=nn.Conv2d(3, 4, 3)),
        "normalised": Function(lambda m, x: F.normalize(m.c(x).flatten(1), dim=1) * 3, c=nn.Conv2d(3, 4, 5)),
        "where": Function(lambda m, x: torch.where(m.c(x) > 0, m.c(x), torch.expm1(m.c(x))), c=nn.Conv2d(3, 4, 3)),
    }
    made |= {name: (module, (x,)) for name, module in networks.items()}
    made |= {
        "video": (
            nn.Sequential(
                nn.Conv3d(1, 4, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool3d(2),
                nn.Conv3d(4, 4, 3),
                nn.AdaptiveAvgPool3d(1),
                nn.Flatten(),
                nn.Linear(4, 3),
            ),
            (torch.zeros(1, 1, 6, 8, 8),),
        ),
        "one_dimension": (
            nn.Sequential(
                nn.Conv1d(4, 8, 5, 2, 2),
                nn.BatchNorm1d(8),
                nn.ReLU(),
                nn.MaxPool1d(2),
                nn.Conv1d(8, 8, 3, groups=2),
                nn.AdaptiveAvgPool1d(1),
                nn.Flatten(),
                nn.Linear(8, 3),
            ),
            (torch.zeros(1, 4, 32),),
        ),
        "one_dimension_transpose": (
            nn.Sequential(
                nn.ConvTranspose1d(4, 4, 4, 2, 1), nn.LeakyReLU(0.1), nn.Conv1d(4, 2, 3, padding=1), nn.Tanh()
            ),
            (torch.zeros(1, 4, 16),),
        ),
        "wavenet": (Wave(8), (torch.zeros(1, 8, 24),)),
        "keywords": (
            nn.Sequential(
                nn.Conv2d(1, 8, (10, 4), (2, 2), (5, 1)), nn.ReLU(), conv(8, 8, groups=8), conv(8, 8, 1), *head(8, 12)
            ),
            (torch.zeros(1, 1, 49, 10),),
        ),
        "anomaly": (
            nn.Sequential(
                nn.Linear(64, 16),
                nn.BatchNorm1d(16),
                nn.ReLU(),
                nn.Linear(16, 4),
                nn.ReLU(),
                nn.Linear(4, 16),
                nn.ReLU(),
                nn.Linear(16, 64),
            ),
            (torch.zeros(2, 64),),
        ),
        "mlp": (
            nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10), nn.LogSoftmax(1)),
            (torch.zeros(3, 16),),
        ),
        "lstm": (Last(nn.LSTM(16, 8, batch_first=True), 8), (s,)),
        "lstm_two_ways": (Last(nn.LSTM(16, 6, 2, bidirectional=True, batch_first=True), 12, True), (s,)),
        "gru": (Last(nn.GRU(16, 8, batch_first=True), 8), (s,)),
        "gru_two_ways": (Last(nn.GRU(16, 6, bidirectional=True, batch_first=True), 12), (s,)),
        "rnn": (Last(nn.RNN(16, 8, nonlinearity="relu", batch_first=True), 8), (s,)),
        "encoder": (transformer(), (s,)),
        "encoder_fused": (transformer(fused=True), (s,)),
        "encoder_causal": (transformer(causal=True), (s,)),
        "encoder_causal_fused": (transformer(causal=True, fused=True), (s,)),
        "encoder_rms": (transformer(norm=nn.RMSNorm, act=nn.SiLU()), (s,)),
        "encoder_batch": (transformer(), (sequence(batch=3),)),
        "torch_encoder": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0), (s,)),
        "torch_decoder": (nn.TransformerDecoderLayer(16, 4, 32, batch_first=True, dropout=0.0), (s, sequence(6))),
        "multihead": (
            Function(
                lambda m, x: m.a(x, x, x, need_weights=False)[0], a=nn.MultiheadAttention(16, 4, batch_first=True)
            ),
            (s,),
        ),
        "rotary": (Rotary(16), (s,)),
        "mixer": (Mixer(10, 16), (s,)),
        "gpt": (Text(transformer(causal=True)), (words(),)),
        "bert": (Text(transformer(act=nn.GELU("tanh"))), (words(batch=2),)),
        "bag": (Function(lambda m, x: m.h(m.e(x).mean(1)), e=nn.Embedding(40, 8), h=nn.Linear(8, 3)), (words(),)),
        "two_towers": (
            Function(lambda m, a, b: F.cosine_similarity(m.l(a), m.l(b), dim=-1), l=nn.Linear(16, 8)),
            (torch.zeros(4, 16), torch.zeros(4, 16)),
        ),
        "gated": (
            Function(
                lambda m, x: m.down(F.silu(m.gate(x)) * m.up(x)),
                gate=nn.Linear(16, 24),
                up=nn.Linear(16, 24),
                down=nn.Linear(24, 16),
            ),
            (s,),
        ),
        "masked_mean": (
            Function(
                lambda m, x, k: (m.l(x) * k[..., None]).sum(1) / k.sum(1, keepdim=True).clamp(min=1), l=nn.Linear(16, 4)
            ),
            (s, torch.zeros(1, 10)),
        ),
        "temporal": (
            nn.Sequential(
                nn.Conv1d(4, 8, 3, padding=4, dilation=4),
                nn.ReLU(),
                nn.Conv1d(8, 8, 1),
                nn.AvgPool1d(4),
                nn.Flatten(),
                nn.Linear(64, 2),
            ),
            (torch.zeros(1, 4, 32),),
        ),
    }
    return made


OPSETS = {"dynamo": (18, 20), "script": (11, 13, 17)}


def seeded(module: nn.Module) -> nn.Module:
    """The module in evaluation, with statistics of norms that are not those of a new one."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
            part.running_mean.normal_(0, 0.3)
            part.running_var.uniform_(0.5, 1.5)
    return module.eval()


def exported(module: nn.Module, inputs: tuple[torch.Tensor, ...], names: list[str], dynamo: bool, opset: int) -> bytes:
    stream = io.BytesIO()
    if dynamo:
        program = torch.onnx.export(module, inputs, dynamo=True, opset_version=opset, input_names=names, verbose=False)
        program.save(stream)
    else:
        torch.onnx.export(module, inputs, stream, dynamo=False, opset_version=opset, input_names=names)
    return without_traces(onnx.load_model_from_string(stream.getvalue()))


def write(exporter: str, opsets: tuple[int, ...]) -> None:
    """The archive of one exporter."""
    writer = Writer(FOLDER / f"torch_{exporter}.zip")
    version = torch.__version__.split("+")[0]
    for index, name in enumerate(blocks()):
        torch.manual_seed(index)
        module, inputs = blocks()[name]
        module = seeded(module)
        names = [f"x{place}" for place in range(len(inputs))]
        parts = tuple(
            Input(label, DTYPES[value.dtype], tuple(value.shape), 40 if value.dtype == torch.int64 else 0)
            for label, value in zip(names, inputs, strict=True)
        )
        how = f"torch {version} {'TorchScript' if exporter == 'script' else exporter}"
        opset = opsets[index % len(opsets)]
        entry = Entry(f"torch_{exporter}_{name}", "network", how, opset, parts)
        fed = entry.draw()
        tensors = tuple(map(torch.from_numpy, fed.values()))
        with writer.attempt(entry.name):
            content = exported(module, tensors, names, exporter == "dynamo", opset)
            outputs = onnxruntime_outputs(content, fed)
            with torch.no_grad():
                expected = tree_leaves(module(*tensors))
            for output, right in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(output, right.numpy(), rtol=1e-3, atol=1e-3)
            writer.add(entry, content, outputs)
    print(writer.write())


def main() -> None:
    warnings.simplefilter("ignore")
    for exporter, opsets in OPSETS.items():
        write(exporter, opsets)


if __name__ == "__main__":
    main()
