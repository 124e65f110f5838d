"""How an Atari game is shown and paid: one set of choices, which the environment and the native vector both keep."""

from __future__ import annotations

from dataclasses import dataclass

from cairn.core.checks import Count, Natural, Side, Unit

FRAMES = 108_000  # half an hour: where a game is cut that does not end


@dataclass(frozen=True)
class Game:
    """The preprocessing of Mnih et al. 2015, with the choices of the results we compare with.

    An action is repeated for `skip` frames; seen is the brighter of the last two, pixel by pixel, in `size` x `size`
    shades of grey. An observation holds the last `stack` of these, oldest first, zeros before an episode's first.

    Where `life_loss`, a lost life is a new beginning: the stack is emptied and, where `fire`, FIRE is pressed in place
    of one action. To who learns it is a termination, and the press is no step. To who keeps the score an episode is a
    whole game, and a reward is what the game pays.
    """

    rom: str  # 'pong'
    skip: Count = 4
    size: Side = 84
    stack: Count = 4
    noops: Natural = 30  # a game begins with fewer idle frames than this, drawn evenly
    fire: bool = True  # press FIRE where a game or a life begins, if the game knows that button
    sticky: Unit = 0.0  # the chance that a frame repeats the action before (Machado et al. 2018 use 0.25)
    full_actions: bool = False  # all 18 actions, not only those that matter in the game
    mode: Natural | None = None  # a variant of the game, by its own number
    difficulty: Natural | None = None
    life_loss: bool = True
    clip: bool = True  # rewards to -1, 0 or 1, to who learns
    learning: bool = True  # False: score is kept
    limit: Count = FRAMES  # frames of a game until it is truncated
