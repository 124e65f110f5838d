"""Parameters laid out as one vector: one fused optimiser kernel, one norm, one interpolation, whatever the network."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Flat:
    """Re-seats every parameter of a module as a view into one vector, and its gradient into another."""

    def __init__(self, module: nn.Module) -> None:
        params = list(module.parameters())
        self.module = module
        self.data = torch.cat([p.data.flatten() for p in params])
        self.grad = torch.zeros_like(self.data)
        start = 0
        for p in params:
            window = slice(start, start + p.numel())
            p.data = self.data[window].view(p.shape)
            p.grad = self.grad[window].view(p.shape)
            start += p.numel()


class Optimizer:
    """Adam (or RMSprop) over a module's flat parameters: `step(loss)` zeroes, back-propagates, clips and moves."""

    def __init__(
        self,
        module: nn.Module,
        *,
        lr: float,
        eps: float = 1e-8,
        max_norm: float | None = None,
        rmsprop: bool = False,
    ) -> None:
        self.flat = Flat(module)
        self.max_norm = max_norm
        vector = nn.Parameter(self.flat.data)
        vector.grad = self.flat.grad
        self.vector = vector
        self.inner: torch.optim.Optimizer = (
            torch.optim.RMSprop([vector], lr=lr, alpha=0.99, eps=eps)
            if rmsprop
            else torch.optim.Adam([vector], lr=lr, eps=eps, fused=True)
        )

    @property
    def lr(self) -> float:
        return float(self.inner.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        self.inner.param_groups[0]["lr"] = value

    def step(self, loss: Tensor) -> None:
        self.flat.grad.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        if self.max_norm is not None:
            self.flat.grad.mul_((self.max_norm / (self.flat.grad.norm() + 1e-6)).clamp(max=1.0))
        self.inner.step()

    def state(self) -> dict[str, Tensor]:
        return {k: v for k, v in self.inner.state[self.vector].items() if isinstance(v, Tensor)}

    def load(self, state: dict[str, Tensor]) -> None:
        fused = self.inner.defaults.get("fused")
        home = self.vector.device
        self.inner.state[self.vector] = {k: v.to(home) if fused or k != "step" else v for k, v in state.items()}


@torch.no_grad()
def lerp_(target: Flat, source: Flat, tau: float) -> None:
    """θ' ← (1-τ)θ' + τθ."""
    target.data.lerp_(source.data, tau)
