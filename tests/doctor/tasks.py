"""Tasks with one fault each. Without a fault they are healthy: every broken task has its repaired twin."""

import os
import random
import time

import gymnasium as gym
import numpy as np

from tests.doctor import odd_spaces


class Puck(gym.Env):
    """A puck in the plane, pushed and slowed by drag, to be brought to the middle; 60 steps."""

    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    observation_space = gym.spaces.Box(-20, 20, (4,), np.float64)
    counter = 0.0  # of the class, for the fault that shares it

    def __init__(self, fault=None):
        self.fault = fault
        self.state, self.kept, self.open, self.waste = np.zeros(4), np.zeros(4), [], []
        if fault == "seeds itself":
            super().reset(seed=3)
        if fault == "no bounds":
            self.action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        if fault == "wide bounds":
            self.action_space = gym.spaces.Box(-10, 10, (2,), np.float32)

    def obs(self):
        if self.fault == "same array":
            self.kept[:] = self.state
            return self.kept
        out = self.state.copy()
        if self.fault == "nan" and self.steps == 10:
            out[0] = np.nan
        if self.fault == "outside":
            out[1] *= 1e4
        if self.fault == "blind":
            out[:] = 1.0
        if self.fault == "constant entry":
            out[2] = 0.0
        if self.fault == "no speed":
            out[2:] = 0.0
        if self.fault == "twin entries":
            out[3] = out[2]
        if self.fault == "huge entry":
            out[0] *= 1e5
        return out

    def reset(self, *, seed=None, options=None):
        super().reset(
            seed=42 if self.fault == "reseeds" else 1 if self.fault == "one seed" and seed is not None else seed
        )
        if self.fault == "reseeds when unseeded" and seed is None:
            super().reset(seed=42)
        at = self.np_random.uniform(-1, 1, 2)
        if self.fault == "global generator":
            at = np.array([random.uniform(-1, 1), random.uniform(-1, 1)])
        if self.fault == "shared":
            Puck.counter = 0.0
        velocity = self.state[2:] if self.fault == "remembers" else np.zeros(2)
        self.state, self.steps = np.concatenate([at, velocity]), 0
        if self.fault == "files":
            self.open.append(open(os.devnull))
        if self.fault == "memory":
            self.waste.append(np.ones(25_000))
        if self.fault == "slow reset":
            time.sleep(0.05)
        if self.fault == "raises in reset":
            raise RuntimeError("the simulator is not there")
        if self.fault == "hangs in reset":
            time.sleep(1000)
        return self.obs(), {}

    def push(self, action):
        push = np.clip(np.asarray(action, float), -1, 1)
        if self.fault == "dead dimension":
            push[1] = 0.0
        if self.fault == "deaf":
            push[:] = 0.3
        return push

    def step(self, action):
        self.steps += 1
        rate = 0.001 if self.fault == "too fine" else 0.1
        place, velocity = self.state[:2], self.state[2:]
        velocity = velocity + rate * (self.push(action) - velocity)
        if self.fault == "noise":
            velocity = velocity + 0.05 * np.random.default_rng().normal(size=2)
        if self.fault == "shared":
            Puck.counter += 0.3 * float(np.sum(action))
            velocity = velocity + 0.1 * np.sin(Puck.counter)
        place = place + rate * velocity
        self.state = np.concatenate([place, velocity])
        if self.fault == "raises in step" and self.steps == 20:
            raise ZeroDivisionError("division by zero")
        if self.fault == "hangs in step" and self.steps == 20:
            time.sleep(1000)
        if self.fault == "dies" and self.steps == 20:
            os._exit(3)
        if self.fault == "slow":
            time.sleep(0.02)
        over = self.steps >= (600 if self.fault == "too fine" else 60)
        terminated, truncated = (over, False) if self.fault == "limit is death" else (False, over)
        if self.fault == "limit is both":
            terminated = over
        if self.fault == "endless":
            truncated = False
        return self.obs(), self.reward(), terminated, truncated, {}

    def reward(self):
        reward = -float(np.square(self.state[:2]).sum())
        if self.fault == "reward nan" and self.steps == 10:
            return float("nan")
        if self.fault == "reward constant":
            return -1.0
        return reward * {"reward huge": 1e6, "reward tiny": 1e-7}.get(self.fault, 1.0)


class OldGym(Puck):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class FourValues(Puck):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


class NoSeed(Puck):
    def reset(self):
        return super().reset()


class WrongShape(Puck):
    observation_space = gym.spaces.Box(-20, 20, (5,), np.float64)


class NoSpace(Puck):
    observation_space = None


class Buttons(gym.Env):
    """Four buttons: right, left, up, down; a light at the far end. `same` makes two of them do the same."""

    action_space = gym.spaces.Discrete(4)
    observation_space = gym.spaces.Box(-50, 50, (2,), np.float64)

    def __init__(self, same=False):
        self.same = same

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = self.np_random.uniform(-1, 1, 2), 0
        return self.at.copy(), {}

    def step(self, action):
        moves = [(1, 0), (-1, 0), (0, 1), (0, 1) if self.same else (0, -1)]
        self.at, self.steps = self.at + 0.2 * np.array(moves[action]), self.steps + 1
        return self.at.copy(), float(-np.abs(self.at).sum()), False, self.steps >= 30, {}


class Runner(gym.Env):
    """Runs on a beam and falls off at ±1: `living` is paid a step, `falling` for the step that falls."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    observation_space = gym.spaces.Box(-5, 5, (1,), np.float64)

    def __init__(self, living, falling, told=True):
        self.living, self.falling, self.told = living, falling, told

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = self.np_random.uniform(-0.1, 0.1, 1), 0
        return self.at.copy(), {}

    def step(self, action):
        self.at, self.steps = self.at + 0.3 * np.asarray(action, float), self.steps + 1
        fell = bool(abs(self.at[0]) > 1)
        info = {"is_success": False} if self.told else {}
        return self.at.copy(), self.falling if fell else self.living, fell, self.steps >= 100, info


class Corridor(gym.Env):
    """A belt carries one along a corridor to 1 at its end, `length` steps away; actions move one across it."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    observation_space = gym.spaces.Box(-5000, 5000, (2,), np.float64)

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = np.array([0.0, self.np_random.uniform(-1, 1)]), 0
        return self.at.copy(), {}

    def step(self, action):
        self.at, self.steps = self.at + np.array([1.0, float(action[0])]), self.steps + 1
        there = self.steps >= self.length
        return self.at.copy(), float(there), there, False, {}


class Arm(gym.Env):
    """A gripper that is moved by at most 0.05 a step, to a goal within 0.15 of its home, as the Fetch arm's; 50 steps.

    It bends no further than 0.4 from the shoulder it stands at. The fault "forgets the pose" leaves the arm where the
    last episode did, shoulder and all.
    """

    action_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    observation_space = gym.spaces.Dict(
        {
            "observation": gym.spaces.Box(-10, 10, (6,), np.float64),
            "achieved_goal": gym.spaces.Box(-10, 10, (3,), np.float64),
            "desired_goal": gym.spaces.Box(-10, 10, (3,), np.float64),
        }
    )
    home = np.array([1.3, 0.7, 0.5])
    reached = 0.05

    def __init__(self, fault=None):
        self.fault = fault
        self.at, self.shoulder = self.home.copy(), self.home.copy()

    def obs(self):
        at = self.at.copy()
        return {
            "observation": np.concatenate([at, self.velocity]),
            "achieved_goal": at.copy(),
            "desired_goal": self.goal.copy(),
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        way = self.np_random.uniform(-1, 1, 3) * 0.15
        if self.fault == "far goals":
            way *= 0.6 / max(np.linalg.norm(way), 1e-6)
        self.goal, self.velocity, self.steps = self.home + way, np.zeros(3), 0
        if self.fault == "one goal":
            self.goal = self.home + 0.1
        if self.fault != "forgets the pose":
            self.at, self.shoulder = self.home.copy(), self.home.copy()
        return self.obs(), {}

    def step(self, action):
        self.steps += 1
        before = self.at
        at = self.at + 0.05 * np.clip(np.asarray(action, float), -1, 1)
        stretch = np.linalg.norm(at - self.shoulder)
        if stretch > 0.4:
            at = self.shoulder + (at - self.shoulder) * 0.4 / stretch
            if self.fault == "forgets the pose":
                self.shoulder = self.shoulder + 0.02 * (at - self.shoulder)  # it leans over, and stays so
        self.at, self.velocity = at, at - before
        reward = float(self.compute_reward(self.at, self.goal, {}))
        if self.fault == "pays otherwise":
            reward *= 2
        wider = {"calls it success": 0.3, "a little wide": 0.07, "a little narrow": 0.02}
        near = wider.get(self.fault, self.reached)
        info = {"is_success": bool(np.linalg.norm(self.at - self.goal) <= near)}
        return self.obs(), reward, False, self.steps >= 50, {} if self.fault == "silent" else info

    def compute_reward(self, achieved, desired, info):
        if self.fault == "one at a time" and np.ndim(achieved) > 1:
            return -1.0
        return -(np.linalg.norm(achieved - desired, axis=-1) > self.reached).astype(np.float32)


class NotesCar(gym.Env):
    """The notes' race car from its facts: an S of walls, -1 a step, 0 within 1 m of the goal, a crash ends the episode,
    10,000 decisions at 100 Hz, and `seed if seed else 42` in reset. A kinematic car: 2.5 m/s at full throttle.

    `mended`: ten physics steps a decision, walls that stop the car and end nothing, a seed used once, 150 decisions.
    """

    lanes = (((0, 0), (2, 4)), ((0, 2), (10, 4)), ((8, 2), (10, 8)), ((8, 6), (15, 8)))
    goals = ((3, 3), (9, 5), (11, 7), (14.5, 7.5))
    action_space = gym.spaces.Box(np.array([-1, 0], np.float32), np.array([1, 1], np.float32))
    observation_space = gym.spaces.Dict(
        {
            "observation": gym.spaces.Box(-50, 50, (7,), np.float64),
            "achieved_goal": gym.spaces.Box(-50, 50, (2,), np.float64),
            "desired_goal": gym.spaces.Box(-50, 50, (2,), np.float64),
        }
    )

    def __init__(self, mended=False):
        self.mended, self.prng = mended, random.Random()
        self.skip, self.limit = (10, 150) if mended else (1, 10_000)

    def obs(self):
        vx, vy = self.speed * np.cos(self.heading), self.speed * np.sin(self.heading)
        state = np.array([*self.at, vx, vy, self.heading, self.steering, self.turning])
        return {"observation": state, "achieved_goal": state[:2].copy(), "desired_goal": np.array(self.goal, float)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.mended:
            self.goal = self.goals[self.np_random.integers(4)]
        else:
            self.prng.seed(seed if seed else 42)
            self.goal = self.prng.choice(self.goals)
        self.at, self.heading = np.array([0.5, 0.5]), np.pi / 2
        self.speed = self.steering = self.turning = 0.0
        self.steps = 0
        return self.obs(), {}

    def free(self, at):
        off = 0.15 + 0.15  # half a wall and half a car
        return any(x0 + off <= at[0] <= x1 - off and y0 + off <= at[1] <= y1 - off for (x0, y0), (x1, y1) in self.lanes)

    def step(self, action):
        steer, throttle = np.clip(action, (-1, 0), (1, 1)).tolist()
        self.steps += 1
        hit = False
        for _ in range(self.skip):
            self.turning = 10 * (-steer - self.steering)
            self.steering += 0.01 * self.turning
            self.speed += 0.05 * (2.5 * throttle - self.speed)
            self.heading += 0.01 * self.speed * np.tan(0.5 * self.steering) / 0.33
            at = self.at + 0.01 * self.speed * np.array([np.cos(self.heading), np.sin(self.heading)])
            if not self.free(at):
                hit, self.speed = True, 0.0
                break
            self.at = at
        reward = float(self.compute_reward(self.at, np.array(self.goal, float), {}))
        done = reward >= 0
        if hit and not self.mended:
            done, reward = True, -1.0
        return self.obs(), reward, done, self.steps >= self.limit, {}

    def compute_reward(self, achieved, desired, info):
        return -(np.linalg.norm(achieved - desired, axis=-1) > 1.0).astype(np.float32)

    def compute_terminated(self, achieved, desired, info):
        return np.linalg.norm(achieved - desired, axis=-1) <= 1.0


class Field(gym.Env):
    """A walker on a field of 12 by 12 cells, to a goal on it; a fence across it, with or without a gap, or none."""

    action_space = gym.spaces.Discrete(4)
    observation_space = gym.spaces.Dict(
        {name: gym.spaces.Box(0, 11, (2,), np.float64) for name in ("observation", "achieved_goal", "desired_goal")}
    )

    def __init__(self, fence=True, gap=None):
        self.fence, self.gap = fence, gap

    def obs(self):
        at = self.at.astype(float)
        return {"observation": at, "achieved_goal": at.copy(), "desired_goal": self.goal.astype(float)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal, self.steps = np.array([0, 0]), self.np_random.integers((0, 0), (12, 12)), 0
        return self.obs(), {}

    def step(self, action):
        to = np.clip(self.at + [(1, 0), (-1, 0), (0, 1), (0, -1)][action], 0, 11)
        if not self.fence or (to[0] >= 6) == (self.at[0] >= 6) or to[1] == self.gap:
            self.at = to
        self.steps += 1
        reward = float(self.compute_reward(self.at, self.goal, {}))
        return self.obs(), reward, False, self.steps >= 80, {"is_success": reward == 0}

    def compute_reward(self, achieved, desired, info):
        return -(np.abs(np.asarray(achieved) - desired).sum(-1) > 0).astype(float)


class Shared(Puck):
    """Copies draw from one generator: what one draws the other misses, and nothing else passes between them."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            np.random.seed(seed)
        return super().reset(seed=seed)

    def push(self, action):
        return super().push(action) + np.random.normal(size=2)


class Turns(Puck):
    """Begins at three places in turn: a reset remembers, and nothing strange is left over."""

    turn = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn = (self.turn + 1) % 3
        self.state[0] = self.turn
        return self.obs(), {}


class Dark(odd_spaces.Camera):
    """Its picture is never drawn anew."""

    def shown(self):
        return {**super().shown(), "camera": np.full((3, 36, 36), 7, np.uint8)}


class Stopped(odd_spaces.Camera):
    """The number beside its picture stands still."""

    def shown(self):
        return {**super().shown(), "x": np.zeros(1, np.float32)}


class Vault(odd_spaces.Plane):
    """The middle pays 1 to who opens it there, which the mask allows nowhere else, or only elsewhere."""

    action_space = gym.spaces.Discrete(6)

    def __init__(self, fault=None):
        self.fault = fault

    def action_masks(self):
        at_home = bool((self.at == 0).all())
        inside = [np.abs(self.at + move).max() <= 3 for move in self.moves]
        if self.fault == "allows all":
            return np.ones(6, bool)
        if self.fault == "never":
            return np.array([*inside, False])
        return np.array([*inside, at_home != (self.fault == "inverted")])

    def moved(self, action):
        return np.zeros(2) if action == 5 else super().moved(action)

    def step(self, action):
        opened = action == 5 and bool((self.at == 0).all())
        wall = action < 5 and np.abs(self.at + self.moves[action]).max() > 3
        if wall and self.fault == "allows all":
            raise ValueError("there is a wall")
        if self.fault == "takes all":
            wall = False
        obs, _, _, truncated, info = super().step(action)
        refused = wall or (action == 5 and not opened)
        return obs, 1.0 if opened else -1.0 if refused else 0.0, opened, truncated, info


class HalfSeen(odd_spaces.Plane):
    """What is forbidden costs 9 and changes nothing. Its mask may know of two walls only."""

    def __init__(self, walls=4):
        self.walls = walls

    def action_masks(self):
        return np.array([i > self.walls or np.abs(self.at + move).max() <= 3 for i, move in enumerate(self.moves)])

    def step(self, action):
        wall = np.abs(self.at + self.moves[action]).max() > 3
        obs, reward, terminated, truncated, info = super().step(0 if wall else action)
        return obs, -9.0 if wall else reward, terminated, truncated, info


class Idle(odd_spaces.Plane):
    """Forbids one move after the other, and takes them all the same."""

    def action_masks(self):
        return np.arange(5) != self.steps % 5


class Picture(odd_spaces.Bright):
    """A picture with values or a shape that networks do not read."""

    def __init__(self, fault):
        self.fault = fault
        low, high, shape, kind = {
            "too bright": (0, 1, (40, 40, 1), np.float32),
            "too dark": (0, 255, (40, 40, 1), np.float32),
            "bits": (0, 255, (40, 40, 1), np.uint8),
            "middle": (0, 255, (40, 1, 40), np.uint8),
            "around 0": (-1, 1, (40, 40, 1), np.float32),
        }[fault]
        self.observation_space = gym.spaces.Box(low, high, shape, kind)

    def shown(self):
        picture = super().shown()
        if self.fault == "too bright":
            return 255 * picture
        if self.fault == "bits":
            return np.ceil(picture).astype(np.uint8)
        if self.fault == "middle":
            return (255 * picture).astype(np.uint8).reshape(40, 1, 40)
        return picture
