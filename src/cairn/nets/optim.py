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
        on_gpu = vector.device.type == "cuda"
        rate = torch.tensor(lr, device=vector.device) if on_gpu else lr  # a tensor, so that a CUDA graph sees it change
        self.inner: torch.optim.Optimizer = (
            torch.optim.RMSprop([vector], lr=rate, alpha=0.99, eps=eps, capturable=on_gpu)
            if rmsprop
            else torch.optim.Adam([vector], lr=rate, eps=eps, fused=True, capturable=on_gpu)
        )

    @property
    def lr(self) -> float:
        return float(self.inner.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        rate = self.inner.param_groups[0]["lr"]
        if isinstance(rate, Tensor):
            rate.fill_(value)
        else:
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
        self.inner.state[self.vector] = {k: v.to(self.vector.device) for k, v in state.items()}


@torch.no_grad()
def lerp_(target: Flat, source: Flat, tau: float) -> None:
    """θ' ← (1-τ)θ' + τθ."""
    target.data.lerp_(source.data, tau)
