"""The registry of algorithms: one entry each, which answers whatever depends on the algorithm of a run.

An algorithm is a config (a frozen dataclass), an agent (`agent(cfg, spec, *, seed, device)`), a loop and, if it
learns from stored experience, a replay. `register` adds your own; recipes, checkpoints, the command line, Ray's
samplers and `cairn.model` then know it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

from cairn.algorithms import hiro, imitation
from cairn.algorithms.a2c import A2C, A2CConfig
from cairn.algorithms.dqn import DQN, DQNConfig
from cairn.algorithms.imported import Imported, ImportedConfig
from cairn.algorithms.off_policy import make_replay, make_sequences, off_policy
from cairn.algorithms.on_policy import on_policy
from cairn.algorithms.ppo import PPO, PPOConfig
from cairn.algorithms.reinforce import Reinforce, ReinforceConfig
from cairn.algorithms.sac import SAC, SACConfig
from cairn.algorithms.td3 import TD3, TD3Config
from cairn.algorithms.trainable import trainable
from cairn.core import sb3_members
from cairn.core.agent import REPLAY_SETTINGS, Learner
from cairn.core.calls import keywords
from cairn.core.checks import short, validated
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError, closest
from cairn.core.kinds import Kinds
from cairn.core.state import check_parts
from cairn.core.types import Spec
from cairn.native.dqn import DQNByHand
from cairn.native.ppo import PPOByHand
from cairn.native.sac import SACByHand
from cairn.native.td3 import TD3ByHand
from cairn.native.use import Able, MakeByHand
from cairn.nets.own import NONE, Own
from cairn.replay.protocol import Checkpointable, ReplayPlan

Loop = Callable[[Any, Any, Any, Any], None]  # loop(agent, collector, replay, run)
MakeReplay = Callable[[Any, ReplayPlan], Checkpointable | None]

# Settings that change what given weights compute, for the configs that have them.
OF_INPUTS = ("normalise", "normalise_obs", "clip_obs", "relative_goals")
WEIGHTS_DEPEND_ON = ("activation", *OF_INPUTS, "layer_norm", "dueling", "cnn", "memory")


def no_replay(agent: Any, plan: ReplayPlan) -> None:
    """No replay: on-policy algorithms discard a rollout after learning from it."""


def no_learners(cfg: Any) -> dict[str, Learner]:
    """No part of the config learns from a replay."""
    return {}


def itself(agent: Any, normalise_reward: bool | None) -> Any:
    """The agent: it can already be trained."""
    return agent


def one_learner(cfg: Any) -> dict[str, Learner]:
    """The config itself learns from a replay."""
    return {"": Learner(cfg)}


@dataclass(frozen=True)
class Algorithm:
    """An entry of the registry."""

    name: str  # on the command line and in files
    config: type[Any]
    agent: Callable[..., Any]  # the agent's class: agent(cfg, spec, *, seed, device)
    loop: Loop
    replay: MakeReplay = no_replay
    parts: tuple[str, ...] = ()  # fields of the config that are configs
    acts_by: str = ""  # the part with the settings of the task (γ, normalisation); "": the config itself
    weights_depend_on: tuple[str, ...] = ()  # in addition to WEIGHTS_DEPEND_ON
    settings: tuple[str, ...] = ()  # fields of the config that the loop reads
    attributes: tuple[str, ...] = ()  # attributes of the agent that the loop uses, in addition to AGENT_HAS
    learners: Callable[[Any], Mapping[str, Learner]] = no_learners  # the parts that learn from a replay
    levels: bool = False  # whether parts of the agent can be loaded separately
    hindsight: str = ""  # why `hindsight` cannot be used; "": it can
    prepare: imitation.Prepare | None = None  # makes the `Lesson` of an imitation algorithm
    masks: bool = False  # whether it uses the action masks of a task
    own: tuple[str, ...] = ()  # the networks of `Own` that it takes
    samplers: str = ""  # why Ray samplers cannot be used; "": they can
    alone: str = ""  # why several learners cannot share the work, a clause; "": they can
    trained: bool = True  # False: it only plays
    by_hand: MakeByHand | None = None  # its update without autograd, see `native.use`
    trainable: Callable[[Any, bool | None], Any] = itself  # (agent, normalise_reward): the same, as one to train

    @property
    def label(self) -> str:
        """The name of its Python class, as in `cairn.PPO`."""
        return self.config.__name__.removesuffix("Config")


NO_REPLAY = "hindsight needs an agent with a replay buffer: dqn, sac or td3."
ASKS = "imitation asks its expert in one process"
LEVELS = "hiro's high level begins to learn with its first windows, which each learner would have at another step"
EPISODES = "reinforce learns from whole episodes, of which each learner would have other numbers of steps; use a2c"
WHOLE = ("network", "actor", "critic")
ON_POLICY: dict[str, Any] = {"loop": on_policy, "attributes": ("update", "horizon"), "hindsight": NO_REPLAY}
OFF_POLICY: dict[str, Any] = {"loop": off_policy, "replay": make_replay, "learners": one_learner}
OFF_POLICY |= {"settings": REPLAY_SETTINGS, "attributes": ("update",)}
IMITATION: dict[str, Any] = {"hindsight": NO_REPLAY, "samplers": imitation.NO_SAMPLERS, "alone": ASKS}

AGENT_HAS = ("act", "cfg", "spec", "progress", "policy_parts", "training_parts", "memory", "levels")
NAMES = re.compile(r"[a-z][a-z0-9_-]*")
RESERVED = ("seed", "envs", "device", "threads", "network", "actor", "critic")  # keywords of every model

ALGORITHMS: dict[str, Algorithm] = {}
KINDS = Kinds("agent")  # configs by the name of their class, which files contain
AgentConfig = Annotated[Any, KINDS]  # the config of any algorithm in the registry


def _is_frozen(config: Any) -> bool:
    """Whether a class is a frozen dataclass."""
    return isinstance(config, type) and is_dataclass(config) and bool(vars(config)["__dataclass_params__"].frozen)


def register(algorithm: Algorithm) -> Algorithm:
    """Add an algorithm to the registry.

    Args:
        algorithm: The entry: its name, config, agent, loop and replay.

    Returns:
        The same entry.

    Raises:
        CairnError: The name is taken, or the config lacks a setting that the loop reads.
    """
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
    known = {f.name for f in fields(config)} | set(dir(config))  # class constants count too
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
    Algorithm("a2c", A2CConfig, A2C, masks=True, own=WHOLE, **ON_POLICY),
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
    Algorithm(
        "dqn",
        DQNConfig,
        DQN,
        masks=True,
        own=("network", "critic"),
        by_hand=DQNByHand,
        **OFF_POLICY | {"replay": make_sequences},
    ),
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
        alone=LEVELS,
        hindsight="hindsight is set per level with hiro: use agent.low_hindsight and agent.high_hindsight.",
    ),
    Algorithm("imported", ImportedConfig, Imported, on_policy, trained=False, hindsight=NO_REPLAY, trainable=trainable),
    Algorithm("ppo", PPOConfig, PPO, masks=True, own=WHOLE, by_hand=PPOByHand, **ON_POLICY),
    Algorithm("reinforce", ReinforceConfig, Reinforce, masks=True, own=WHOLE, alone=EPISODES, **ON_POLICY),
    Algorithm("sac", SACConfig, SAC, own=("network",), by_hand=SACByHand, **OFF_POLICY),
    Algorithm("td3", TD3Config, TD3, own=("network",), by_hand=TD3ByHand, **OFF_POLICY),
):
    register(_entry)


# -- finding an entry


def names() -> list[str]:
    """The trainable algorithms, as `--agent` takes them."""
    return [name for name, one in ALGORITHMS.items() if one.trained]


def owners(field: str) -> list[str]:
    """The trainable algorithms whose config has this field."""
    return [name for name in names() if field in {f.name for f in fields(ALGORITHMS[name].config)}]


def algorithm_of(cfg: Any) -> Algorithm:
    """The entry of a config. Raises CairnError if there is none."""
    for one in ALGORITHMS.values():
        if type(cfg) is one.config:
            return one
    raise CairnError(f"{type(cfg).__name__} is not the config of a registered algorithm; add it with cairn.register.")


def able_by_hand(agent: Any) -> Able:
    """An agent, or its levels, each with its algorithm's update without autograd, or None."""
    parts = list(agent.levels.values()) or [agent]
    return [(one, algorithm_of(one.cfg).by_hand) for one in parts]


def agent_name(cfg: Any) -> str:
    """The algorithm's name: 'sac' for SACConfig()."""
    return algorithm_of(cfg).name


def config_type(name: str) -> type[Any]:
    """The config class of a trainable algorithm: SACConfig for 'sac'. Raises CairnError for other names."""
    if name in ALGORITHMS and not ALGORITHMS[name].trained:
        raise CairnError(
            "an imported policy comes from `cairn import`; train on from it with --agent ppo --start FOLDER."
        )
    if name not in ALGORITHMS:
        told = sb3_members.algorithm(name) or closest(name, names())
        raise CairnError(f"there is no agent {name!r}; the agents are {', '.join(names())}.{told}")
    return ALGORITHMS[name].config


def build(cfg: Any, spec: Spec, *, seed: int = 0, device: str = "cpu", own: Own = NONE) -> Any:
    """Make the agent that a config describes.

    Args:
        cfg: The config of a registered algorithm.
        spec: Observation and action spaces of the task.
        seed: Seed of the network weights and of the agent's random numbers.
        device: A torch device, or "auto".
        own: Networks of the user's own.

    Returns:
        The agent.

    Raises:
        CairnError: The config is invalid, or the agent lacks something that loops or checkpoints need.
    """
    entry = algorithm_of(cfg)
    given: dict[str, Any] = {"own": check_own(entry, own)} if own.names() else {}
    agent = entry.agent(validated(cfg, "agent."), spec, seed=seed, device=resolve_device(device), **given)
    for name in (*AGENT_HAS, *entry.attributes):
        if not hasattr(agent, name):
            raise CairnError(
                f"the agent of {entry.name} has no {name!r}; inherit cairn.core.agent.BaseAgent and set what its"
                " docstring names."
            )
    check_parts({**agent.policy_parts, **agent.training_parts}, f"the agent of {entry.name}")
    return agent


def check_own(entry: Algorithm, own: Own) -> Own:
    """The user's networks. Raises CairnError where the algorithm does not take them."""
    for role in own.names():
        if role not in entry.own:
            takers = ", ".join(name for name, one in ALGORITHMS.items() if role in one.own)
            takes = f"it takes {' and '.join(entry.own)}; " if entry.own else ""
            raise CairnError(f"{entry.name} takes no {role} of your own; {takes}{role} works with {takers}.")
    return own


def maker(cfg: Any, own: Own = NONE) -> Callable[[Spec], Callable[..., Any]]:
    """A function of a spec that returns a function of `seed=` that returns an agent.

    For samplers in other processes, whose registry may lack the entry.
    """
    agent = algorithm_of(cfg).agent
    given: dict[str, Any] = {"own": own} if own.names() else {}
    return lambda spec: functools.partial(agent, cfg, spec, device="cpu", **given)
