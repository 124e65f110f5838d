"""Optimisers over parameters stored as one flat vector: one fused kernel, one norm, for any network."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from cairn.core.learners import average_


class Flat:
    """Makes every parameter of a module a view into one vector, `data`, and its gradient one into `grad`."""

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
    """Adam or RMSprop over a module's flat parameters."""

    def __init__(
        self, module: nn.Module, *, lr: float, eps: float = 1e-8, max_norm: float | None = None, rmsprop: bool = False
    ) -> None:
        self.flat = Flat(module)
        self.eps, self.max_norm, self.rmsprop = eps, max_norm, rmsprop
        device = self.flat.data.device
        self.on_gpu = device.type == "cuda"
        self.rate = self.knob(lr)
        self.first = torch.zeros_like(self.flat.data)  # m
        self.second = torch.zeros_like(self.flat.data)  # v
        self.count = torch.zeros((), device=device)  # t

    def knob(self, value: float) -> float | Tensor:
        """A number that may change; on a GPU a tensor, because a CUDA graph would keep a constant."""
        return torch.tensor(value, device=self.flat.data.device) if self.on_gpu else value

    @property
    def lr(self) -> float:
        """The learning rate."""
        return float(self.rate)

    @lr.setter
    def lr(self, value: float) -> None:
        if isinstance(self.rate, Tensor):
            self.rate.fill_(value)
        else:
            self.rate = value

    def step(self, loss: Tensor, *others: Optimizer) -> None:
        """Zero the gradient, back-propagate `loss`, clip the gradient's norm and update the parameters.

        The `others` update the parameters of their modules from the same loss.
        """
        for one in (self, *others):
            one.flat.grad.zero_()
        loss.backward()
        for one in (self, *others):
            one.move()

    def move(self) -> None:
        """Clip the norm of the gradient in `flat.grad`, its mean over all learners, and update the parameters."""
        grad = average_(self.flat.grad)
        with torch.no_grad():
            if self.max_norm is not None:
                grad.mul_((self.max_norm / (torch.linalg.vector_norm(grad) + 1e-6)).clamp_(max=1.0))
            self._rmsprop(grad) if self.rmsprop else self._adam(grad)

    def _adam(self, grad: Tensor) -> None:
        adam(
            [self.flat.data],
            [grad],
            [self.first],
            [self.second],
            [],
            [self.count],
            fused=True,
            capturable=self.on_gpu,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.rate,
            weight_decay=0.0,
            eps=self.eps,
            maximize=False,
        )

    def _rmsprop(self, grad: Tensor) -> None:
        """v ← 0.99v + 0.01g²; θ ← θ - lr g/(√v + ε)."""
        self.second.mul_(0.99).addcmul_(grad, grad, value=0.01)
        self.flat.data.sub_(grad / self.second.sqrt().add_(self.eps) * self.rate)

    def state(self) -> dict[str, Tensor]:
        """First and second moments and the number of steps."""
        return {"first": self.first, "second": self.second, "count": self.count}


@torch.no_grad()
def lerp_(target: Flat, source: Flat, tau: float) -> None:
    """θ' ← (1-τ)θ' + τθ."""
    target.data.lerp_(source.data, tau)
