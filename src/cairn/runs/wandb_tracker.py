"""Weights & Biases as a tracker: offline, unless the user's own settings allow the network."""

from __future__ import annotations

import netrc
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cairn.core.errors import CairnError
from cairn.core.serialise import to_json
from cairn.recipes.recipe import Recipe
from cairn.runs.trackers import Ended, Tracker, run_name

SERVER = "https://api.wandb.ai"
STEP = "cairn/step"  # the step metric in the user's own run


def begin(recipe: Recipe, folder: Path | None, run: str) -> Callable[[], Tracker]:
    """A function that starts the run `run`, or a new one."""
    return lambda: Wandb(recipe, folder, run)


class Wandb:
    """A W&B run: the user's own if one is active, else the earlier run of a resumed training, or a new one."""

    def __init__(self, recipe: Recipe, folder: Path | None, run: str) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # W&B would report its own errors over the network
        wandb = _wandb()
        self.theirs = wandb.run is not None
        self.known: set[str] = set()
        self.run: Any = wandb.run
        if self.theirs:
            self.id, self.where = "", f"logging to your run {self.run.name or self.run.id}"
            return
        where: dict[str, Any] = {"id": run, "resume": "allow"} if run else {}
        where |= _mode()
        if folder is not None and "WANDB_DIR" not in os.environ:
            where["dir"] = str(folder)
        hooks = sys.exit, sys.excepthook  # wandb replaces these
        try:
            self.run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "cairn"),
                name=os.environ.get("WANDB_NAME", run_name(recipe, folder)),
                config=to_json(recipe),
                settings=wandb.Settings(console="off", silent=True),
                **where,
            )
        finally:
            sys.exit, sys.excepthook = hooks
        self.id = self.run.id
        place = Path(self.run.dir).parent
        offline = f"logging to {place}; `wandb sync {place}` uploads it"
        self.where = offline if self.run.offline else f"logging to {self.run.url or place}"

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        if not self.theirs:
            self.run.log(dict(values), step=step)
            return
        for name in values.keys() - self.known:  # the run's own step counter belongs to the user
            self.run.define_metric(name, step_metric=STEP)
        self.known |= values.keys()
        self.run.log({**values, STEP: step})

    def close(self, ended: Ended) -> None:
        if not self.theirs:
            self.run.finish(exit_code=int(ended == "failed"))


def _wandb() -> Any:
    import wandb

    return wandb


def _mode() -> dict[str, str]:
    """Offline if the user neither chose a mode nor logged in. Raises CairnError where W&B would ask for a login."""
    chosen = os.environ.get("WANDB_MODE", "")
    if chosen in ("offline", "dryrun", "disabled") or _logged_in():
        return {}
    if chosen:
        raise CairnError(f"WANDB_MODE is {chosen}, and nobody is logged in; run `wandb login`")
    return {"mode": "offline"}


def _logged_in() -> bool:
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", SERVER)).hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
