"""A zip of Stable-Baselines3, read without running anything in it.

It contains `data`, JSON in which some values are pickles in base64, and `policy.pth`, named tensors. torch reads the
tensors with weights_only. `safe_unpickle` reads the pickles that are needed; the others are not opened.
"""

from __future__ import annotations

import base64
import contextlib
import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from cairn.algorithms.imported import Algorithm
from cairn.core.errors import CairnError
from cairn.core.types import ActionSpec, Array, Box, Discrete
from cairn.core.untrusted import opened, parse_json, shown
from cairn.core.untrusted_zip import ZIP, opened_zip, unpacked
from cairn.interop.sb3 import safe_unpickle as inert
from cairn.interop.sb3.old_tensors import old_tensors
from cairn.nets.cnn import LAYERS

LIMIT = 2**30  # bytes of one member
FEATURES = 512  # outputs of SB3's NatureCNN
ADMITTED = "|".join(
    [
        inert.NUMPY,
        inert.SPACES,
        r"(stable_baselines3|sb3_contrib)\.[\w.]+",
        r"torch\.(nn\.modules\.[\w.]+|optim\.[\w.]+|device)",
    ]
)

TENSORS = "|".join(
    [
        r"torch\._utils\._rebuild_(tensor_v2|parameter)",
        r"torch\.(\w+Storage|storage\.\w+Storage|Size|float\d+|bfloat16|u?int\d+|bool)",
        r"collections\.OrderedDict",
    ]
)

Layer = tuple[Tensor, Tensor]  # weight [out, in] and bias [out]


class Archive:
    """The settings and tensors of a policy in a zip. Tensors are taken out one by one.

    data      plain JSON; `value` also reads the pickles in it
    settings  the policy's own settings
    parts     width of each part of an observation, in the order of the networks; a single part has no name
    image     channels, height and width of image observations; None for numbers
    action    the action space, in the environment's units
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        data, weights, *variables = self._entries("data", "policy.pth", maybe="pytorch_variables.pth")
        self.data = self._json(data)
        self.weights = self._tensors(weights, "policy.pth")
        self.variables = variables  # of sac, read when needed
        with laid_out_by_sb3(path):
            settings = self.value("policy_kwargs") or {}
            if not isinstance(settings, dict):
                raise TypeError("policy_kwargs is no dictionary")
            self.settings: dict[str, Any] = dict(settings)
            self.image: tuple[int, ...] | None = None
            self.algorithm = self._algorithm()
            self.parts = self._parts(self.value("observation_space"))
            self.action = self._action(self.value("action_space"))

    def _entries(self, *names: str, maybe: str) -> list[bytes]:
        """The entries of these names, which there must be, and the last one where there is one."""
        with opened(self.path, ZIP) as file:
            if file.read(2) != b"PK":
                raise CairnError(f"{self.path} is not a zip, which is what Stable-Baselines3 saves.")
        with opened_zip(self.path) as entries:
            names = (*names, *([maybe] if maybe in entries.namelist() else []))
            for name in names:
                if name not in entries.namelist():
                    raise CairnError(f"{self.path} is not of Stable-Baselines3: there is no {name!r} in it.")
                if entries.getinfo(name).file_size > LIMIT:
                    raise CairnError(f"{self.path} is refused: {name!r} in it unpacks to more than {LIMIT:,} bytes.")
            return [unpacked(entries, name) for name in names]

    def _json(self, blob: bytes) -> dict[str, Any]:
        try:
            data = parse_json(blob, f"'data' in {self.path}")
        except CairnError as error:
            raise CairnError(f"{self.path} is damaged: 'data' in it is not JSON, or past the limits.") from error
        if not isinstance(data, dict) or "policy_class" not in data:
            raise CairnError(f"{self.path} is not of Stable-Baselines3: 'data' in it names no policy_class.")
        return data

    def _tensors(self, blob: bytes, entry: str) -> dict[str, Tensor]:
        """Named tensors. Their pickle is checked as data first, then torch reads it."""
        source = f"{entry!r} in {self.path}"
        damaged = CairnError(f"{source} is damaged, or holds more than tensors; nothing in it was executed.")
        weights: Any
        try:
            if blob[:2] == b"PK":
                with opened_zip(blob, source) as entries:
                    (name,) = [name for name in entries.namelist() if name.endswith("data.pkl")]
                    laid_out = unpacked(entries, name)
                inert.load(laid_out, TENSORS, source)
                with warnings.catch_warnings(action="ignore"):
                    weights = torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True)
            else:
                weights = old_tensors(blob, TENSORS, source)
        except Exception as error:  # damaged pickles raise anything
            raise damaged from error
        if not isinstance(weights, dict) or not all(isinstance(w, Tensor) for w in weights.values()):
            raise CairnError(f"{source} does not hold named tensors.")
        if sum(w.numel() * w.element_size() for w in weights.values()) > len(blob) + LIMIT // 16:
            raise CairnError(f"{source} is refused: its tensors are larger than the file.")  # tensors of stride 0
        return {str(name): tensor.float() for name, tensor in weights.items()}

    def value(self, key: str) -> Any:
        """A value of `data`; pickles are read by `safe_unpickle`."""
        found = self.data.get(key)
        if not isinstance(found, dict) or ":serialized:" not in found:
            return found
        source = f"{key!r} in {self.path}"
        try:
            blob = base64.b64decode(found[":serialized:"])
        except (TypeError, ValueError) as error:
            raise CairnError(f"{source} is cut short or damaged.") from error
        return inert.load(blob, ADMITTED, source)

    def number(self, key: str, default: float) -> float:
        """A number of `data`, or `default`."""
        with laid_out_by_sb3(self.path):
            found = self.value(key)
            return default if found is None else float(inert.array(found))

    def variable(self, name: str, default: float) -> float:
        """A number that is learned apart from the networks; `default` where it is missing or not finite."""
        if not self.variables:
            return default
        found = self._tensors(self.variables[0], "pytorch_variables.pth").get(name)
        value = float(found.detach()) if found is not None and found.numel() == 1 else default
        return value if math.isfinite(value) else default

    def plain(self, key: str) -> float | None:
        """A plain number of `data`; None for anything else, such as a pickle."""
        found = self.data.get(key)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            return None
        return found if math.isfinite(found) else None

    def take(self, name: str, *shape: int) -> Tensor:
        """Remove and return the tensor of this name and shape. Raises CairnError where it is missing or invalid."""
        if name not in self.weights:
            raise CairnError(f"{self.path} lacks the tensor {name}.")
        tensor = self.weights.pop(name)
        if tensor.shape != shape:
            raise CairnError(f"{self.path}: tensor {name} has shape {tuple(tensor.shape)} instead of {shape}.")
        if not tensor.isfinite().all():
            raise CairnError(f"{self.path}: tensor {name} holds numbers that are not finite.")
        return tensor

    def linear(self, name: str, fan_in: int, fan_out: int) -> Layer:
        """Remove and return the weight and bias of a linear layer."""
        return self.take(f"{name}.weight", fan_out, fan_in), self.take(f"{name}.bias", fan_out)

    def mlp(self, name: str, widths: Sequence[int]) -> list[Layer]:
        """The layers name.0, name.2, ...; the numbers between are activations, which have no tensors."""
        return [self.linear(f"{name}.{2 * i}", a, b) for i, (a, b) in enumerate(pairwise(widths))]

    def _algorithm(self) -> Algorithm:
        """The algorithm, by the class of its policy; ppo and a2c, and td3 and ddpg, by their settings."""
        policy = inert.name_of(self.value("policy_class"))
        room = re.fullmatch(r"stable_baselines3\.(common|ppo|a2c|sac|td3|dqn)\.policies\.\w+", policy)
        if room is None or "cg_max_steps" in self.data:  # TRPO uses the policy class of A2C
            known = ", ".join(get_args(Algorithm))
            raise CairnError(f"{self.path} holds a policy of {policy or 'no known class'}; Cairn imports {known}.")
        extractor = inert.name_of(self.settings.get("features_extractor_class")).rpartition(".")[2]
        if extractor == "NatureCNN" or ("Cnn" in policy and not extractor):
            self.image = self._image(self.value("observation_space"), room[1])
        elif extractor not in ("", "FlattenExtractor", "CombinedExtractor"):
            raise self.not_an_mlp(extractor)
        if room[1] == "td3":
            return "ddpg" if self.data.get("policy_delay") == self.settings.get("n_critics") == 1 else "td3"
        if room[1] in ("sac", "dqn"):
            return "sac" if room[1] == "sac" else "dqn"
        return "ppo" if "clip_range" in self.data else "a2c"

    def not_an_mlp(self, what: str) -> CairnError:
        """The error for a policy with an unsupported network."""
        return CairnError(
            f"{self.path} has other layers than an MLP's or a CnnPolicy's ({what}); Cairn imports these alone."
        )

    def _image(self, space: Any, room: str) -> tuple[int, ...]:
        """The shape of a CnnPolicy's images, channels first. Raises CairnError for other networks than the default."""
        features = (self.settings.get("features_extractor_kwargs") or {}).get("features_dim", FEATURES)
        usual = self.settings.get("share_features_extractor", True) and self.settings.get("normalize_images", True)
        if not inert.name_of(space).endswith(".Box") or len(_shape(space.state)) != 3:
            raise self.not_an_mlp("it does not see one image")
        if room not in ("common", "ppo", "a2c", "dqn") or features != FEATURES or not usual:
            raise self.not_an_mlp(f"a CnnPolicy of {room} with settings of its own")
        return _shape(space.state)

    def vision(self, name: str) -> dict[str, Tensor]:
        """Convolutions and dense layer of SB3's NatureCNN, under the names in `nets.cnn`."""
        assert self.image is not None
        channels, *sides = self.image
        found: dict[str, Tensor] = {}
        for i, (width, kernel, stride) in enumerate(LAYERS):
            found[f"convolutions.{i}.weight"] = self.take(f"{name}.cnn.{2 * i}.weight", width, channels, kernel, kernel)
            found[f"convolutions.{i}.bias"] = self.take(f"{name}.cnn.{2 * i}.bias", width)
            channels, sides = width, [(side - kernel) // stride + 1 for side in sides]
        weight, bias = self.linear(f"{name}.linear.0", channels * math.prod(sides), FEATURES)
        return {**found, "dense.weight": weight.T, "dense.bias": bias}

    def _parts(self, space: Any) -> dict[str, int]:
        if inert.name_of(space).endswith(".Dict"):
            parts = space.state["spaces"]
            if any(inert.name_of(part).endswith(".Dict") for part in parts.values()):
                raise self.not_an_mlp("it sees dictionaries in a dictionary")
            return {str(key): width for key, part in parts.items() for width in self._parts(part).values()}
        kind, state = inert.name_of(space).rpartition(".")[2], space.state
        if kind == "Box" and (self.image is not None or len(_shape(state)) < 3):
            return {"": math.prod(_shape(state))}
        if kind in ("Discrete", "MultiBinary"):
            return {"": int(np.prod(_numbers(state["n"])))}
        if kind == "MultiDiscrete":
            return {"": int(_numbers(state["nvec"]).sum())}
        raise self.not_an_mlp("it sees pictures" if kind == "Box" else f"it sees a {kind}")

    def _action(self, space: Any) -> ActionSpec:
        kind, state = inert.name_of(space).rpartition(".")[2], space.state
        if kind == "Discrete":
            return Discrete(int(_numbers(state["n"])))
        if kind == "Box":
            low, high = (_numbers(state[bound]).ravel().astype(float).tolist() for bound in ("low", "high"))
            return Box(_shape(state), tuple(low), tuple(high))
        raise CairnError(f"{self.path} acts in a {kind} space; Cairn acts in Discrete and Box spaces.")


def _shape(state: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in (state["_shape"] if "_shape" in state else state["shape"]))


def _numbers(value: Any) -> Array:
    return np.array([inert.array(v) for v in value]) if isinstance(value, (list, tuple)) else inert.array(value)


@contextlib.contextmanager
def laid_out_by_sb3(path: Path) -> Iterator[None]:
    """Context that raises CairnError, blaming the file, where its contents have unexpected types."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, MemoryError, OverflowError, TypeError, ValueError) as error:
        raise CairnError(f"{path} is not laid out as Stable-Baselines3 does it ({shown(str(error))}).") from error
