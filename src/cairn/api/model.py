"""`SAC(env, **config).learn(steps)`, `.predict`, `.save`, `.load`: the interface that SB3 users know."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from cairn.algorithms.imitation.expert import is_agent
from cairn.algorithms.registry import ALGORITHMS, agent_name, config_type
from cairn.algorithms.settings import as_trainable
from cairn.api.arguments import (
    changed,
    disk_errors,
    file_path,
    folder_path,
    run_folder,
    task_again,
    unknown_setting,
    with_its_count,
)
from cairn.core.agent import Agent
from cairn.core.calls import called
from cairn.core.checks import Count, Envs, Episodes, EpisodeSeed, Natural, Parallel, fit, short, validated
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError
from cairn.core.sb3_members import member
from cairn.core.sb3_names import WITHOUT
from cairn.core.seeding import derive
from cairn.core.state import pack, unpack
from cairn.core.types import Array, Box, Composite, MultiDiscrete
from cairn.doctor.watchers import watching
from cairn.envs.given import EnvLikes
from cairn.envs.task import Task, as_task
from cairn.nets.own import MakeNetwork, Own
from cairn.recipes.recipe import OF_A_TASK, Recipe, of_task
from cairn.runs.callbacks import Callback, Callbacks, as_callbacks
from cairn.runs.checkpoint import load_policy, load_zip, save_policy
from cairn.runs.config import CONFIG, stored
from cairn.runs.evaluation import Score, as_policy, evaluate
from cairn.runs.owned_files import check_output
from cairn.runs.policy_card import build_fitting, check_task
from cairn.runs.serving import export_onnx, export_sb3, export_torchscript
from cairn.runs.train import train as run_recipe
from cairn.vector.choose import scoring_vector
from cairn.vector.given import look
from cairn.vector.observations import rows_of, with_mask


def _sb3_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A better message for `PPO("MlpPolicy", env)`; "" for other calls."""
    name = type(args[0]).__name__
    if len(args) > 1 and isinstance(args[1], str) and args[1].endswith("Policy"):
        env = args[2] if len(args) > 2 else kwargs.get("env")
        shown = short(env) if isinstance(env, str) else "env"
        return f"{name} takes no policy ({args[1]!r}): {WITHOUT['policy']}. Write {name}({shown})."
    if len(args) > 2:
        return f"{name} takes one environment; settings are given by name, such as {name}(env, lr=3e-4)."
    if "env" not in kwargs and len(args) == 1:
        return f'{name} needs an environment: {name}("CartPole-v1").'
    return ""


def _sb3_learn(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A better message for `learn(total_timesteps=...)`, and for a callback without its name."""
    if len(args) > 2:
        return "learn takes the number of steps; all else is given by name, such as learn(10_000, callback=f)."
    told = "it is called steps: " if "total_timesteps" in kwargs else ""
    return f"learn needs the number of steps; {told}write learn(10_000)." if "steps" not in kwargs else ""


class Model:
    """An agent and its task. `cairn.PPO`, `cairn.SAC` and so on are subclasses that choose the algorithm.

    Args:
        env: A Gymnasium id or a `Task`; a class or a function that makes an environment; an environment, used itself
            where one is enough and copied by its spec where not; a vector of Gymnasium or Stable-Baselines3; or a list
            of functions, one for each environment. Cairn does not close what it did not make.
        wrappers: Functions of an environment that return one, such as Gymnasium's wrappers; the first is innermost.
        seed: Seed of weights, exploration and environments.
        envs: Number of parallel environments in training; None: 1, or those of the vector or the list.
        device: `cpu`, `cuda`, or `auto` for a GPU if there is one.
        threads: CPU threads of PyTorch; 0: PyTorch's own choice.
        network: A class or function that makes your own `nn.Module` from the spec: observations [B, ...] -> features
            [B, any width], which the agent's layers read. An observation of one array comes as a tensor, one of
            several parts as a dictionary.
        actor: Your own whole actor (PPO, A2C, REINFORCE): observations -> a logit per option, a mean per real number.
        critic: Your own whole critic: observations -> V(s) [B, 1]; with DQN Q(s, ·) [B, actions].
        **config: Settings of the algorithm, the fields of its config such as `PPOConfig`.

    Attributes:
        agent: The agent.
        task: The task.
        spec: Its observation and action spaces.
        config: The algorithm's config.

    Raises:
        CairnError: An argument is invalid, or the algorithm does not support the task.
    """

    kind: ClassVar[str] = ""

    @called(_sb3_call)
    def __init__(
        self,
        env: EnvLikes | Task,
        *,
        wrappers: Any = (),
        seed: int = 0,
        envs: int | None = None,
        device: str = "cpu",
        threads: int = 1,
        network: MakeNetwork | None = None,
        actor: MakeNetwork | None = None,
        critic: MakeNetwork | None = None,
        **config: Any,
    ) -> None:
        if not self.kind:
            raise CairnError("Model has no algorithm; use a class such as cairn.PPO or cairn.SAC.")
        task = as_task(env, wrappers)
        self.task = replace(task, action_masks=task.action_masks and ALGORITHMS[self.kind].masks)
        self.seed = fit("seed", seed, Natural)
        self.envs: int = self.task.count or 1 if envs is None else fit("envs", envs, Envs)
        self.device, self.threads = resolve_device(device), fit("threads", threads, Parallel)
        cls = config_type(self.kind)
        known = {f.name for f in fields(cls)}
        for name in config:
            if name not in known:
                raise unknown_setting(self.kind, name, ("wrappers", "seed", "envs", "device", "threads"))
        self.config = validated(cls(**config), "")
        self.spec, self.layout, self.space = look(self.task)
        if self.envs != self.task.count:
            self.task.makers(self.envs)  # CairnError where there cannot be so many
        own = Own(network, actor, critic)
        try:
            self.agent: Agent = build_fitting(
                self.config, self.spec, seed=derive(self.seed, "agent"), device=self.device, own=own
            )
        except CairnError as error:
            raise CairnError(str(error).replace("agent.", "")) from None  # here they are keywords

    if not TYPE_CHECKING:  # a type checker reports unknown attributes itself

        def __getattr__(self, name: str) -> Any:
            config = self.__dict__.get("config")
            told = member(name, [f.name for f in fields(config)] if config is not None else ())
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}.{told}", name=name, obj=self
            )

    @called(_sb3_learn)
    def learn(
        self,
        steps: int,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        callback: Callback | Sequence[Callback] | None = None,
        trust: bool = False,
        **recipe: Any,
    ) -> Self:
        """Train for `steps` environment steps.

        Args:
            steps: Environment steps.
            out: Folder of the run, which is logged and can be resumed; None writes nothing.
            resume: Whether to continue the run in `out`.
            callback: A function, or several, called with a `TrainingProgress` at each log and evaluation. If one
                returns False,
                the run is saved and ends.
            trust: Whether a resumed run may open paths in its arguments for evaluation (`eval_args`).
            **recipe: Further fields of the `Recipe`, such as `eval_every=10_000`.

        Returns:
            The model itself.

        Raises:
            CairnError: An argument is invalid, or the run cannot be started or resumed.
        """
        steps, name = fit("steps", steps, Count), type(self).__name__
        for one in recipe:
            if one in ("env", "agent", "device"):
                raise CairnError(f"learn takes no {one}: the model already has one; make another {name}.")
            if one in ("env_args", *OF_A_TASK):
                raise CairnError(
                    f"learn takes no {one}: it would change the task, which the model was made for; write"
                    f" {name}(cairn.envs.task.Task({self.task.id!r}, {one.removeprefix('env_')}=...))."
                )
        own: dict[str, Any] = {
            **of_task(self.task),
            "agent": self.config,
            "steps": steps,
            "envs": self.envs,
            "seed": self.seed,
            "device": self.device,
            "threads": self.threads,
        }
        expert, changes = split_expert(recipe)
        folder, resume = run_folder(out), fit("resume", resume, bool)
        trust, typed = fit("trust", trust, bool), Recipe(**own, eval_every=steps, name=f"{self.kind}-{self.task.id}")
        begun = replace(stored(folder)[0], **own) if resume and folder is not None else typed
        plan = with_its_count(changed(begun, changes, model=name), changes)
        if resume and folder is not None and "eval_args" not in changes:  # what its file adds to the model's own task
            check_task(plan.judged_task, folder / CONFIG, trust=trust, typed=typed.judged_task)
        told: Any = {"watch": watching, "callbacks": Callbacks(as_callbacks(callback), self._with)}
        with disk_errors():
            outcome = run_recipe(plan, folder, resume=resume, agent=self.agent, expert=expert, **told)
        self.agent = outcome.agent  # another agent if the run started again
        return self

    def _with(self, agent: Agent) -> Self:
        """The model for callbacks, with the agent in training."""
        self.agent = agent
        return self

    @called()
    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """Choose actions for one observation or a batch.

        Args:
            obs: An observation as the environment returns it, or a batch of them.
            state: The state that the previous call returned. Only agents with memory have one (hiro: its subgoals).
            episode_start: Which rows begin an episode [N] bool; None: none.
            deterministic: Whether to take the policy's mode instead of exploring.
            action_masks: Which options are allowed [options] or [N, options]; None: all, or those in `obs`.

        Returns:
            The action or actions in the environment's own units, and the state for the next call.

        Raises:
            CairnError: `obs`, `state`, `episode_start` or `action_masks` is invalid.
        """
        if action_masks is not None and not self.spec.masked:
            raise CairnError("predict was given action_masks, and this policy was not trained with any.")
        if self.spec.masked:
            obs = with_mask(obs, action_masks, self.space, self.spec)
        rows, single = rows_of(obs, self.space, self.spec, self.layout)
        player = as_policy(self.agent, explore=not fit("deterministic", deterministic, bool), device=self.device)
        player.memory = self._memory(state, len(rows))
        if episode_start is not None:
            player.forget(_starts(episode_start, len(rows)))
        out: Any = self.spec.action.to_env(player(rows)) if len(rows) else self._no_action()
        if isinstance(self.spec.action, Composite):
            out = [self.spec.action.structured(row) for row in out]
        return (out[0] if single else out), player.memory

    def _memory(self, state: Any, count: int) -> Any:
        """The state of an earlier call. Raises CairnError where it has another type or batch size."""
        fresh = self.agent.memory(count)
        if state is None or fresh is None:
            return state
        same = type(state) is type(fresh) and all(
            getattr(state, name).shape == part.shape for name, part in vars(fresh).items() if not isinstance(part, list)
        )
        if not same:
            raise CairnError("state must be the one that predict returned before, for the same number of observations.")
        return copy.deepcopy(state)  # acting goes on from it, and the caller may use it again

    def _no_action(self) -> Array:
        """Actions for an empty batch."""
        space = self.spec.action
        shape = space.shape if isinstance(space, (Box, MultiDiscrete)) else space.shape_inside
        return np.zeros((0, *shape), space.dtype_inside)

    @called()
    def evaluate(self, episodes: int = 100, seed: int = 1000) -> Score:
        """Score the policy on fresh seeds, without exploration.

        Args:
            episodes: Number of episodes.
            seed: Seed of the first episode; episode i uses seed + i.

        Returns:
            The `Score`: mean return, success and the results of each episode.

        Raises:
            CairnError: An argument is invalid.
        """
        episodes, seed = fit("episodes", episodes, Episodes), fit("seed", seed, EpisodeSeed)
        fit("the last seed", seed + episodes - 1, EpisodeSeed)
        envs = scoring_vector(self.task.for_scoring(), episodes)
        try:
            policy, longest = as_policy(self.agent, device=self.device), self.task.for_scoring().longest
            score = evaluate(policy, envs, range(seed, seed + episodes), longest=longest)
            assert score is not None  # None only if stopped
            return score
        finally:
            envs.close()

    @called()
    def save(self, path: str | Path) -> None:
        """Write the policy as a folder of safetensors and JSON, for `load`, `cairn eval` and `cairn watch`.

        Args:
            path: The folder; an older policy in it is replaced.

        Raises:
            CairnError: The folder has other contents, or cannot be written.
        """
        about = {"seed": self.seed, "envs": self.envs, "threads": self.threads, "device": self.device}
        folder = folder_path("path", path)
        check_output(folder, "path")
        save_policy(folder, self.agent, self.task, about)

    @called()
    def export(
        self,
        *,
        onnx: str | Path | None = None,
        torchscript: str | Path | None = None,
        sb3: str | Path | None = None,
    ) -> None:
        """Write the policy as files that run without Cairn: observations in, the environment's own actions out.

        Each file is compared with the agent on 1,000 observations, and kept if their actions agree.

        Args:
            onnx: ONNX file to write.
            torchscript: TorchScript file to write.
            sb3: Zip to write for Stable-Baselines3. Observation statistics are written beside it, to
                NAME.vecnormalize.pkl.

        Raises:
            CairnError: No file is named, an extra is missing, or the actions disagree.
        """
        given = (("onnx", onnx), ("torchscript", torchscript), ("sb3", sb3))
        files = {name: file_path(name, path) for name, path in given if path is not None}
        if not files:
            raise CairnError('export needs a file: onnx="policy.onnx", torchscript="policy.pt" or sb3="policy.zip".')
        if "onnx" in files:
            export_onnx(self.agent, files["onnx"], task=self.task.id)
        if "torchscript" in files:
            export_torchscript(self.agent, files["torchscript"])
        if "sb3" in files:
            export_sb3(self.agent, files["sb3"], task=self.task.for_scoring())

    @classmethod
    @called()
    def load(
        cls,
        path: str | Path,
        *,
        env: EnvLikes | Task | None = None,
        wrappers: Any = (),
        normalizer: str | Path | None = None,
        device: str | None = None,
        trust: bool = False,
        network: MakeNetwork | None = None,
        actor: MakeNetwork | None = None,
        critic: MakeNetwork | None = None,
    ) -> Self:
        """Load a saved policy with its settings and task. To continue the training of a recipe, resume its run.

        Args:
            path: A folder that `save` wrote, a run folder, a checkpoint, a zoo entry, or a zip of Stable-Baselines3,
                which is read as data.
            env: Another environment of the same spaces; needed if the policy was trained on a class, a function or an
                environment. Of a zip, its task; None: from the file's name.
            wrappers: The wrappers in which it was trained.
            normalizer: For a zip: its VecNormalize file; None: one of a usual name next to the zip, if there is any.
            device: Where to put the agent; None: the device it was saved from, or the CPU if that is missing.
            trust: Whether its task may import a module (module:id) and open paths in its arguments.
            network: The class or function of its own network, if it was trained with one. Files name no code that
                is run, so it must be given again.
            actor: The same for a whole actor of its own.
            critic: The same for a whole critic of its own.

        Returns:
            A model.

        Raises:
            CairnError: There is no policy, it is damaged, of another algorithm, or not trusted.
        """
        folder = folder_path("path", path)
        resolve_device(device or "cpu")
        if folder.suffix == ".zip" and folder.is_file():
            other = None if normalizer is None else folder_path("normalizer", normalizer)
            saved = load_zip(folder, task=None if env is None else as_task(env, wrappers), normalizer=other)
        elif normalizer is not None:
            raise CairnError("normalizer is for zips of Stable-Baselines3; a saved policy has its own.")
        else:
            saved = load_policy(
                folder, trust=fit("trust", trust, bool) or env is not None, own=Own(network, actor, critic)
            )  # its own task is not made then
            saved = replace(saved, task=task_again(saved.task, env, wrappers, folder))
        agent: Agent = as_trainable(saved.agent)
        kind = agent_name(agent.cfg)
        if kind != cls.kind:
            raise CairnError(f"{path} holds a policy of {kind}, not {cls.kind or 'any'}; {_instead(kind)}.")
        about = saved.about if device is None else {**saved.about, "device": device}
        settings = {
            "seed": fit(f"the seed in {folder}", about.get("seed", 0), Natural),
            "envs": saved.task.count or fit(f"the envs in {folder}", about.get("envs", 1), Envs),
            "threads": fit(f"the threads in {folder}", about.get("threads", 1), Parallel),
            "device": _there(fit(f"the device in {folder}", about.get("device", "cpu"), str)),
        }
        changed = {f.name: getattr(agent.cfg, f.name) for f in fields(agent.cfg)}
        told = about.get("settings", {}) if isinstance(about.get("settings", {}), dict) else {}
        made: Any = {"network": network, "actor": actor, "critic": critic}
        model = cls(saved.task, **settings, **made, **{**changed, **{k: v for k, v in told.items() if k in changed}})
        if not model.spec.alike(agent.spec):
            raise CairnError(
                f"{path} was trained on another version of {saved.task.id}: its observation or action space differs."
            )
        unpack(model.agent.policy_parts, pack(agent.policy_parts))
        model.agent.settle()
        model.agent.progress = 1.0  # schedules at their ends, as for every loaded policy
        return model


def _starts(episode_start: Any, count: int) -> Array:
    """[N] bool from the `episode_start` of `predict`."""
    try:
        starts = np.atleast_1d(np.asarray(episode_start))
    except ValueError:
        starts = np.zeros(0)
    if starts.shape != (count,) or not np.isin(starts, (0, 1)).all():
        raise CairnError(f"episode_start is {short(episode_start)}; it must be true or false for each of {count}.")
    return starts.astype(bool)


def _there(device: str) -> str:
    """A device that a policy was saved from, or the CPU if it does not exist here."""
    try:
        return resolve_device(device)
    except CairnError:
        return "cpu"


def _instead(kind: str) -> str:
    """How to load a policy of this kind."""
    if ALGORITHMS[kind].trained:
        return f"load it with cairn.{ALGORITHMS[kind].label}.load"
    return "play it with `cairn eval`, or use it as an expert"


def split_expert(changes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The expert, if it is an agent, a model or a function, and the other keywords. A name stays a keyword."""
    expert = changes.get("expert", "")
    if isinstance(expert, (str, Path)):
        return None, changes
    rest = {name: value for name, value in changes.items() if name != "expert"}
    if isinstance(expert, Model):
        return expert.agent, rest
    if not callable(expert) and not is_agent(expert):
        raise CairnError(f"expert is {short(expert)}; it must be a folder, a model or a function of an observation.")
    return expert, rest


@called()
def model(name: str) -> type[Model]:
    """The class of a registered algorithm: `model("ppo")` is `cairn.PPO`.

    Args:
        name: Name of the algorithm.

    Returns:
        A subclass of `Model`.

    Raises:
        CairnError: There is no such algorithm.
    """
    name = fit("name", name, str)
    config_type(name)  # raises CairnError
    return _made(name, ALGORITHMS[name].label)


@functools.cache
def _made(name: str, label: str) -> type[Model]:
    doc = (Model.__doc__ or "").replace("An agent", f"A {name} agent", 1)
    return type(label, (Model,), {"kind": name, "__module__": "cairn.api", "__doc__": doc})
