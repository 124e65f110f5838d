"""`python -m benchmarks.speed.tasks [WORD]`

How fast our own tasks (those whose name holds WORD) step and reset: one core, random actions.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from cairn.envs.task import Task

TASKS: dict[str, Task] = {
    "cairn/BitFlip-v0, 50 bits": Task("cairn/BitFlip-v0", args={"n": 50}),
    "cairn/RaceCar-v0": Task("cairn/RaceCar-v0"),
    "cairn/RaceCar-v0, world rebuilt at each reset": Task("cairn/RaceCar-v0", args={"rebuild": True}),
    "cairn/RaceCar-v0, walls of 100 kg": Task("cairn/RaceCar-v0", args={"wall_mass": 100.0}),
    **{
        f"cairn/PixelCartPole-v0, {view}, {size} pixels": Task(
            "cairn/PixelCartPole-v0", args={"view": view, "size": size}
        )
        for view, size in (("both", 84), ("screen", 84), ("both", 42))
    },
    "cairn/PixelCartPole-v0, an action for 4 steps": Task("cairn/PixelCartPole-v0", args={"skip": 4}),
    "CartPole-v1 itself, for PixelCartPole": Task("CartPole-v1"),
    "CartPole-v1 drawn by Gymnasium, for PixelCartPole": Task("CartPole-v1", render_mode="rgb_array"),
    **{f"cairn/BasicMath-v0, by {by}": Task("cairn/BasicMath-v0", args={"by": by}) for by in ("button", "answer")},
}


def measure(task: Task, seconds: float = 4.0) -> tuple[float, float]:
    """Decisions a second without resets, and milliseconds a reset."""
    env: Any = task()
    env.action_space.seed(0)
    env.reset(seed=0)
    steps, stepping, resets, resetting = 0, 0.0, 0, 0.0
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        env.reset()
        resetting, resets = resetting + time.perf_counter() - start, resets + 1
        ended = False
        start = time.perf_counter()
        while not ended:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if task.render_mode is not None:  # 600 x 400 pixels in colour, not made small yet
                env.render()
            ended, steps = terminated or truncated, steps + 1
        stepping += time.perf_counter() - start
    env.close()
    return steps / stepping, 1000 * resetting / resets


if __name__ == "__main__":
    for name, task in ((name, task) for name, task in TASKS.items() if "".join(sys.argv[1:]) in name):
        speed, reset = measure(task)
        print(f"{name:<50} {speed:8,.0f} decisions/s   {reset:6.2f} ms a reset")
