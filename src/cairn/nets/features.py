"""Feature networks: observations with several parts, or a user's own network, as one row of features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from cairn.core.layout import BYTES, slices
from cairn.core.types import ObsPart, Spec
from cairn.nets.cnn import Vision, image_net, sees_images
from cairn.nets.normalizer import Normalizer
from cairn.nets.own import MakeNetwork, OwnNet, as_floats, read_part

IMAGE_FEATURES = 50  # of an image, where a critic learns off-policy (Yarats et al. 2021)
EMBEDDING = 64  # largest width of a category's embedding


class Features(nn.Module):
    """Rows [B, width] with several parts -> [B, features]: numbers, images by a CNN, categories by an embedding.

    normalise   normalise the numbers by their running mean and standard deviation, which the agent updates
    clip        the largest size of a normalised number
    squashed    features of an image, between -1 and 1 by a layer norm and tanh (Yarats et al. 2021); 0: the CNN's own
    """

    index: Tensor

    def __init__(
        self,
        spec: Spec,
        *,
        cnn: Vision = "nature",
        bf16: bool = False,
        normalise: bool = False,
        clip: float = 10.0,
        orthogonal: bool = True,
        squashed: int = 0,
    ) -> None:
        super().__init__()
        self.squashed = squashed
        self.spec = spec = _one_part(spec) if sees_images(spec) else spec
        where = slices(spec)
        columns = [np.arange(at.start, at.stop) for part, at in where if part.form == "numbers"]
        self.register_buffer("index", torch.from_numpy(np.concatenate([*columns, np.zeros(0, np.int64)])), False)
        self.images = [(part, at) for part, at in where if part.form == "image"]
        self.categories = [(part, at) for part, at in where if part.form == "category"]
        settings: Any = {"bf16": bf16, "orthogonal": orthogonal, "fan_out": squashed or None}
        plain: Any = {"parts": (), "goal": None, "masked": 0, "obs_dtype": "uint8"}
        readers = [image_net(cnn, replace(spec, obs_shape=part.shape, **plain), **settings) for part, _ in self.images]
        self.readers = nn.ModuleList(readers)
        self.embeddings = nn.ModuleList([nn.Embedding(part.n, _embedded(part)) for part, _ in self.categories])
        count = len(self.index) // (BYTES if spec.in_bytes else 1)
        self.normalizer = Normalizer((count,), clip) if normalise and count else None
        self.features = count + sum(squashed or reader.features for reader in readers)
        self.features += sum(_embedded(part) for part, _ in self.categories)

    def observe(self, rows: Tensor) -> None:
        """Update the statistics of the numbers with rows [B, width]."""
        if self.normalizer is not None:
            self.normalizer.update(self.numbers(rows.flatten(1)))

    def numbers(self, rows: Tensor) -> Tensor:
        """All numbers of rows [B, width], side by side."""
        if not len(self.index):  # pictures alone
            return torch.zeros(len(rows), 0, device=rows.device)
        found = rows.index_select(1, self.index)
        return as_floats(found) if self.spec.in_bytes else found

    def shifted(self, rows: Tensor, most: int, generator: Generator) -> Tensor:
        """Rows with their images shifted by up to `most` pixels, edges repeated (Yarats et al. 2021)."""
        rows = rows.flatten(1).clone()
        for (part, at), reader in zip(self.images, self.readers, strict=True):
            image = rows[:, at].unflatten(1, part.shape)
            moved = shift(image.permute(0, 3, 1, 2) if reader.last else image, most, generator)
            rows[:, at] = (moved.permute(0, 2, 3, 1) if reader.last else moved).flatten(1)
        return rows

    def forward(self, rows: Tensor) -> Tensor:
        """The features [B, features] of rows [B, ...]."""
        rows = rows.flatten(1)
        numbers = self.numbers(rows)
        found = [numbers if self.normalizer is None else self.normalizer(numbers)]
        for (part, at), reader in zip(self.images, self.readers, strict=True):
            seen = reader(rows[:, at].unflatten(1, part.shape))
            found.append(F.layer_norm(seen, seen.shape[1:]).tanh() if self.squashed else seen)
        for (part, at), embedding in zip(self.categories, self.embeddings, strict=True):
            found.append(embedding(read_part(part, rows[:, at], self.spec)[:, 0].long()))
        return torch.cat(found, 1)


class OwnFeatures(nn.Module):
    """A network of the user's own in front of the agent's layers: rows [B, ...] -> [B, features]."""

    def __init__(self, make: MakeNetwork, spec: Spec) -> None:
        super().__init__()
        self.network = OwnNet("network", make, spec)
        self.features = self.network.width
        self.normalizer: Normalizer | None = None

    def observe(self, rows: Tensor) -> None:
        """Do nothing: there are no statistics."""

    def shifted(self, rows: Tensor, most: int, generator: Generator) -> Tensor:
        """The rows unchanged: augmentation is up to the user's network."""
        return rows

    def forward(self, rows: Tensor) -> Tensor:
        """The features [B, features] of rows [B, ...]."""
        out: Tensor = self.network(rows)
        return out


FeatureNet = Features | OwnFeatures


def feature_net(
    spec: Spec, network: MakeNetwork | None = None, *, images: bool = False, **settings: Any
) -> FeatureNet | None:
    """The feature network of an agent; None if its layers take the observation directly.

    `images` says that its layers cannot read an observation that is one image.
    """
    if network is not None:
        return OwnFeatures(network, spec)
    return Features(spec, **settings) if spec.mixed or (images and sees_images(spec)) else None


def share_statistics(net: nn.Module, target: nn.Module) -> None:
    """Make a target network, a copy of `net`, use the statistics of `net`: of observations and of the user's layers."""
    for mine, copied in zip(net.modules(), target.modules(), strict=True):
        if isinstance(mine, Features) and isinstance(copied, Features):
            copied.normalizer = mine.normalizer
        if isinstance(mine, OwnNet):
            for one, other in zip(mine.modules(), copied.modules(), strict=True):
                other._buffers.update(one._buffers)  # such as those of batch normalisation: only weights are moved


def shift(images: Tensor, most: int, generator: Generator) -> Tensor:
    """Images [B, channels, height, width], each shifted at random by up to `most` pixels along both axes."""
    batch, _, height, width = images.shape
    device = images.device
    by = torch.randint(-most, most + 1, (2, batch, 1), generator=generator, device=device)
    rows = (torch.arange(height, device=device) + by[0]).clamp(0, height - 1)
    columns = (torch.arange(width, device=device) + by[1]).clamp(0, width - 1)
    each = torch.arange(batch, device=device)[:, None, None]
    return images.permute(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _one_part(spec: Spec) -> Spec:
    """A Spec of images as one with rows of a single part."""
    whole = ObsPart("observation", "image", spec.obs_shape)
    return replace(spec, obs_shape=(whole.entries,), parts=(whole,))


def _embedded(part: ObsPart) -> int:
    """Width of a category's embedding."""
    return min(EMBEDDING, part.n)
