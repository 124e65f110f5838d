"""How an Atari game is preprocessed: one config for the Gymnasium environment and for the native vector."""

from __future__ import annotations

from dataclasses import dataclass

from cairn.core.checks import Count, Natural, Side, Unit

FRAMES = 108_000  # half an hour of play, the usual time limit


@dataclass(frozen=True)
class Game:
    """The preprocessing of Mnih et al. 2015, with the options that published results differ in.

    An action is repeated for `skip` frames. A frame is the pixel-wise maximum of the last two, in `size` x `size`
    shades
    of grey. An observation is the last `stack` frames, oldest first; those before the start of an episode are zeros.

    With `life_loss`, a lost life ends an episode during training: the stack is cleared and, with `fire`, the next
    action
    is replaced by FIRE, which does not count as a step. For evaluation (`learning=False`) an episode is a whole game
    with
    unclipped rewards.
    """

    rom: str  # 'pong'
    skip: Count = 4
    size: Side = 84
    stack: Count = 4
    noops: Natural = 30  # upper bound of the random number of idle frames at the start
    fire: bool = True  # press FIRE at the start of a game or a life, if the game has that button
    sticky: Unit = 0.0  # the chance that a frame repeats the action before (Machado et al. 2018 use 0.25)
    full_actions: bool = False  # all 18 actions, not only those that have an effect
    mode: Natural | None = None  # number of a variant of the game
    difficulty: Natural | None = None
    life_loss: bool = True
    clip: bool = True  # clip rewards to -1, 0 or 1 in training
    learning: bool = True  # False: evaluation, with whole games and true rewards
    limit: Count = FRAMES  # frames after which a game is truncated
