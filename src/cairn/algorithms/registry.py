"""Every algorithm, one entry each. Whatever depends on which algorithm a run uses is answered here.

An algorithm is a config (a frozen dataclass), an agent (`agent(cfg, spec, *, seed, device)`), a loop and, where it
learns from stored experience, a replay. `register` adds one of your own; recipes, checkpoints, the command line, Ray's
samplers and `cairn.model` then know it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, get_type_hints

from cairn.algorithms import hiro, imitation
from cairn.algorithms.a2c import A2C, A2CConfig
from cairn.algorithms.dqn import DQN, DQNConfig
from cairn.algorithms.imported import Imported, ImportedConfig
from cairn.algorithms.off_policy import make_replay, off_policy
from cairn.algorithms.on_policy import on_policy
from cairn.algorithms.ppo import PPO, PPOConfig
from cairn.algorithms.reinforce import Reinforce, ReinforceConfig
from cairn.algorithms.sac import SAC, SACConfig
from cairn.algorithms.td3 import TD3, TD3Config
from cairn.core.agent import REPLAY_SETTINGS, Learner
from cairn.core.calls import keywords
from cairn.core.checks import short, validated
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError, closest
from cairn.core.kinds import Kinds
from cairn.core.state import check_parts
from cairn.core.types import Spec
from cairn.replay.protocol import Checkpointable, ReplayPlan

Loop = Callable[[Any, Any, Any, Any], None]  # loop(agent, collector, replay, run)
MakeReplay = Callable[[Any, ReplayPlan], Checkpointable | None]

# Settings under which the same weights would compute something else. Each counts for the configs that have it.
WEIGHTS_DEPEND_ON = ("activation", "normalise", "normalise_obs", "relative_goals", "layer_norm", "dueling", "cnn")


def no_replay(agent: Any, plan: ReplayPlan) -> None:
    """Nothing is kept from one rollout to the next."""


def no_learners(cfg: Any) -> dict[str, Learner]:
    return {}


def one_learner(cfg: Any) -> dict[str, Learner]:
    return {"": Learner(cfg)}


@dataclass(frozen=True)
class Algorithm:
    """What Cairn knows of an algorithm."""

    name: str  # on the command line and in files
    config: type[Any]
    agent: Callable[..., Any]  # its class: agent(cfg, spec, *, seed, device)
    loop: Loop
    replay: MakeReplay = no_replay
    parts: tuple[str, ...] = ()  # fields of the config that are configs themselves
    acts_by: str = ""  # the part whose settings (γ, normalisation) concern the task; "": the config itself
    weights_depend_on: tuple[str, ...] = ()  # beside WEIGHTS_DEPEND_ON
    settings: tuple[str, ...] = ()  # fields that the loop needs the config to have
    attributes: tuple[str, ...] = ()  # attributes that the loop needs the agent to have, beside AGENT_HAS
    learners: Callable[[Any], Mapping[str, Learner]] = no_learners  # which parts learn from a replay of transitions
    levels: bool = False  # whether parts of its agent can be loaded by themselves
    hindsight: str = ""  # why a recipe's `hindsight` cannot be used with it; "": it can
    prepare: imitation.Prepare | None = None  # makes the lesson of an algorithm that learns from an expert
    samplers: str = ""  # why Ray's samplers cannot play for it; "": they can
    trained: bool = True  # False: it is only played

    @property
    def label(self) -> str:
        """The name of its Python class: cairn.PPO."""
        return self.config.__name__.removesuffix("Config")


NO_REPLAY = "hindsight needs an agent with a replay buffer: dqn, sac or td3."
ON_POLICY: dict[str, Any] = {"loop": on_policy, "attributes": ("update", "horizon"), "hindsight": NO_REPLAY}
OFF_POLICY: dict[str, Any] = {"loop": off_policy, "replay": make_replay, "learners": one_learner}
OFF_POLICY |= {"settings": REPLAY_SETTINGS, "attributes": ("update",)}
IMITATION: dict[str, Any] = {"hindsight": NO_REPLAY, "samplers": imitation.NO_SAMPLERS}

AGENT_HAS = ("act", "cfg", "spec", "progress", "policy_parts", "training_parts", "memory", "levels")
NAMES = re.compile(r"[a-z][a-z0-9_-]*")
RESERVED = ("seed", "envs", "device", "threads")  # keywords of every model

ALGORITHMS: dict[str, Algorithm] = {}
KINDS = Kinds("agent")  # configs by the name of their class, as files have them
AgentConfig = Annotated[Any, KINDS]  # the config of any algorithm in the registry


def _is_frozen(config: Any) -> bool:
    """Whether a class is a frozen dataclass."""
    return isinstance(config, type) and is_dataclass(config) and bool(vars(config)["__dataclass_params__"].frozen)


def register(algorithm: Algorithm) -> Algorithm:
    """Add an algorithm; CairnError where its name is taken, or its config lacks a setting that its loop reads."""
    if not isinstance(algorithm, Algorithm):
        raise CairnError(f"register takes a cairn.Algorithm, not {short(algorithm)}.")
    name, config = algorithm.name, algorithm.config
    if not isinstance(name, str) or not NAMES.fullmatch(name):
        raise CairnError(f"the name of an algorithm is {short(name)}; use lower-case letters, digits, '-' and '_'.")
    if not _is_frozen(config) or not re.fullmatch(r"\w+Config", config.__name__):
        raise CairnError(f"the config of {name} must be a frozen dataclass called NameConfig, not {short(config)}.")
    for what, given in (("agent", algorithm.agent), ("loop", algorithm.loop), ("replay", algorithm.replay)):
        if not callable(given):
            raise CairnError(f"the {what} of {name} must be a class or a function, not {short(given)}.")
    if name in ALGORITHMS or config.__name__ in KINDS.types:
        known_as = name if name in ALGORITHMS else config.__name__
        raise CairnError(f"there is an algorithm {known_as!r} already; register yours under another name.")
    known = {f.name for f in fields(config)} | set(dir(config))  # a constant of the class will do
    missing = [one for one in (*algorithm.settings, *algorithm.parts) if one not in known]
    if missing:
        raise CairnError(f"{config.__name__} lacks the field {missing[0]!r}, which the loop of {name} reads; add it.")
    taken = [one.name for one in fields(config) if one.name in RESERVED]
    if taken:
        raise CairnError(f"{config.__name__} has the field {taken[0]!r}, which every model has already; rename it.")
    try:
        get_type_hints(config, include_extras=True)
    except NameError as error:
        raise CairnError(f"a type in {config.__name__} cannot be read: {error}.") from None
    keywords(config)
    KINDS.types[config.__name__] = config
    ALGORITHMS[name] = algorithm
    return algorithm


for _entry in (
    Algorithm("a2c", A2CConfig, A2C, **ON_POLICY),
    Algorithm(
        "aggrevate",
        imitation.AggreVaTeConfig,
        imitation.AggreVaTe,
        imitation.aggrevate,
        replay=imitation.judgements,
        prepare=imitation.with_values,
        **IMITATION,
    ),
    Algorithm(
        "aggrevated",
        imitation.AggreVaTeDConfig,
        imitation.AggreVaTeD,
        imitation.aggrevated,
        parts=("learner",),
        acts_by="learner",
        prepare=imitation.with_values,
        **IMITATION,
    ),
    Algorithm(
        "bc",
        imitation.BCConfig,
        imitation.BC,
        imitation.clone,
        replay=imitation.examples,
        prepare=imitation.from_expert_or_demos,
        **IMITATION,
    ),
    Algorithm(
        "dagger",
        imitation.DAggerConfig,
        imitation.DAgger,
        imitation.clone,
        replay=imitation.examples,
        parts=("learner",),
        acts_by="learner",
        prepare=imitation.from_expert,
        **IMITATION,
    ),
    Algorithm("dqn", DQNConfig, DQN, **OFF_POLICY),
    Algorithm(
        "hiro",
        hiro.HIROConfig,
        hiro.HIRO,
        hiro.hierarchy,
        replay=hiro.make_segments,
        parts=("high", "low"),
        acts_by="high",
        weights_depend_on=("subgoal", "subgoal_range", "every", "bins", "hide"),
        learners=hiro.learners,
        levels=True,
        hindsight="hindsight is set per level with hiro: use agent.low_hindsight and agent.high_hindsight.",
    ),
    Algorithm("imported", ImportedConfig, Imported, on_policy, trained=False, hindsight=NO_REPLAY),
    Algorithm("ppo", PPOConfig, PPO, **ON_POLICY),
    Algorithm("reinforce", ReinforceConfig, Reinforce, **ON_POLICY),
    Algorithm("sac", SACConfig, SAC, **OFF_POLICY),
    Algorithm("td3", TD3Config, TD3, **OFF_POLICY),
):
    register(_entry)


# -- finding an entry


def names() -> list[str]:
    """The algorithms that can be trained, as `--agent` takes them."""
    return [name for name, one in ALGORITHMS.items() if one.trained]


def owners(field: str) -> list[str]:
    """The algorithms that can be trained and whose config has this field."""
    return [name for name in names() if field in {f.name for f in fields(ALGORITHMS[name].config)}]


def algorithm_of(cfg: Any) -> Algorithm:
    """The entry of a config; CairnError where it has none."""
    for one in ALGORITHMS.values():
        if type(cfg) is one.config:
            return one
    raise CairnError(f"{type(cfg).__name__} is not the config of a registered algorithm; add it with cairn.register.")


def agent_name(cfg: Any) -> str:
    """SACConfig() -> 'sac'."""
    return algorithm_of(cfg).name


def config_type(name: str) -> type[Any]:
    """'sac' -> SACConfig, of an algorithm that can be trained."""
    if name in ALGORITHMS and not ALGORITHMS[name].trained:
        raise CairnError("an imported policy comes from `cairn import` and cannot be trained; use it as an expert.")
    if name not in ALGORITHMS:
        raise CairnError(f"there is no agent {name!r}; the agents are {', '.join(names())}.{closest(name, names())}")
    return ALGORITHMS[name].config


def build(cfg: Any, spec: Spec, *, seed: int = 0, device: str = "cpu") -> Any:
    """The agent that a config describes; CairnError where it lacks something that loops or checkpoints need."""
    entry = algorithm_of(cfg)
    agent = entry.agent(validated(cfg, "agent."), spec, seed=seed, device=resolve_device(device))
    for name in (*AGENT_HAS, *entry.attributes):
        if not hasattr(agent, name):
            raise CairnError(
                f"the agent of {entry.name} has no {name!r}; inherit cairn.core.agent.BaseAgent and set what its"
                " docstring names."
            )
    check_parts({**agent.policy_parts, **agent.training_parts}, f"the agent of {entry.name}")
    return agent


def maker(cfg: Any) -> Callable[[Spec], Callable[..., Any]]:
    """For samplers in other processes, whose registry may lack an entry: maker(cfg)(spec)(seed=...) is an agent."""
    agent = algorithm_of(cfg).agent
    return lambda spec: functools.partial(agent, cfg, spec, device="cpu")


# -- questions about a config


def setting(cfg: Any, name: str, default: Any) -> Any:
    """A setting of the part that acts in the task (a hierarchy's high level, an imitator's learner), or `default`."""
    entry = algorithm_of(cfg)
    part = getattr(cfg, entry.acts_by) if entry.acts_by else cfg
    return getattr(part, name, default)


def weights_meaning(cfg: Any) -> dict[str, Any]:
    """The settings under which weights can be loaded into an agent of this config, its parts' too."""
    entry, own = algorithm_of(cfg), {f.name for f in fields(cfg)}
    found = {name: getattr(cfg, name) for name in (*WEIGHTS_DEPEND_ON, *entry.weights_depend_on) if name in own}
    for part in entry.parts:
        found |= {f"{part}.{name}": value for name, value in weights_meaning(getattr(cfg, part)).items()}
    return found


def relabels_goals(cfg: Any) -> bool:
    """Whether a config asks for goals of hindsight itself, apart from a recipe's `hindsight`."""
    return bool(getattr(cfg, "high_hindsight", 0.0) > 0)


def horizon(cfg: Any) -> int:
    """Steps of each environment in a rollout, where that is a setting; else 0."""
    steps: int = getattr(cfg, "horizon", 0)
    return steps


def capacities(cfg: Any) -> dict[str, int]:
    """The sizes of a config's replays, by the name of the part; "" is the config itself."""
    return {part: one.config.capacity for part, one in algorithm_of(cfg).learners(cfg).items()}


def most_useful(cfg: Any, steps: int) -> dict[str, int]:
    """The transitions that a run of so many steps can fill each replay with."""
    return {part: max(steps // one.every, 1) for part, one in algorithm_of(cfg).learners(cfg).items()}


def capped_capacity(cfg: Any, most: Mapping[str, int]) -> Any:
    """The config with no replay larger than `most` says."""
    for part, size in capacities(cfg).items():
        size = min(size, most[part])
        inner = replace(getattr(cfg, part), capacity=size) if part else None
        cfg = replace(cfg, capacity=size) if inner is None else replace(cfg, **{part: inner})
    return cfg
