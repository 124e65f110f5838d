"""Updates by hand, in torch and in C++, are those of autograd: gradients within 2e-6, random numbers the same."""

import itertools

import pytest
import torch

from cairn.algorithms import DQNConfig, PPOConfig, SACConfig, TD3Config
from cairn.algorithms.registry import able_by_hand, build
from cairn.core.schedules import constant
from cairn.core.types import Box, Discrete, Spec, Transition, WeightedTransition
from cairn.native.networks import PlainCore, layers_of
from cairn.native.use import by_hand
from cairn.nets.mlp import MLP
from cairn.nets.optim import Flat, Optimizer, lerp_

FORMS = ("python", "compiled")
OBS, DIM, ACTIONS, ROWS = 5, 3, 4, 37
STILL = constant(1e-30)  # a learning rate that leaves the weights as they are, to compare each gradient of an update
CONTINUOUS = Spec((OBS,), "float32", Box((DIM,), (-1.0,) * DIM, (1.0,) * DIM))
DISCRETE = Spec((OBS,), "float32", Discrete(ACTIONS))
MASKED = Spec((OBS + ACTIONS,), "float32", Discrete(ACTIONS), masked=ACTIONS)
SMALL = {"hidden": (32, 16), "lr": STILL}


def cores(core):
    return [PlainCore()] + ([] if core is None else [core])


def forms(core):
    return FORMS if core is not None else FORMS[:1]


def batch(spec, weighted=False, seed=0):
    draw = torch.Generator().manual_seed(seed)
    obs, after = (torch.randn(ROWS, *spec.obs_shape, generator=draw) for _ in range(2))
    if spec.masked:
        for x in (obs, after):
            x[:, -ACTIONS:] = (torch.rand(ROWS, ACTIONS, generator=draw) < 0.5).float()
            x[:, -1] = 1
    if isinstance(spec.action, Discrete):
        action = torch.randint(ACTIONS, (ROWS,), generator=draw)
    else:
        action = torch.rand(ROWS, DIM, generator=draw) * 2 - 1
    reward = 3 * torch.randn(ROWS, generator=draw)
    discount = 0.9 * (torch.rand(ROWS, generator=draw) < 0.8).float()
    fields = obs, action, reward, after, discount
    return WeightedTransition(*fields, torch.rand(ROWS, generator=draw)) if weighted else Transition(*fields)


def strided(data):
    """The same rows as one batch of several that were drawn together, so that they are apart in memory."""
    return type(data)(**{k: v.repeat_interleave(2, 0) for k, v in data.__dict__.items()}).split(2)[0]


def optimisers(agent):
    return {name: part for name, part in agent.training_parts.items() if isinstance(part, Optimizer)}


def scramble(agent):
    """Make targets differ from what they are copies of, and biases from 0."""
    draw = torch.Generator().manual_seed(5)
    for part in agent.policy_parts.values():
        for p in part.parameters():
            p.data.add_(0.1 * torch.randn(p.shape, generator=draw))
    return agent


def learned(cfg, spec, data, form, updates=1):
    """The gradients, metrics and state of the generator after an update."""
    agent = scramble(build(cfg, spec))
    with by_hand(form, able_by_hand(agent)):
        for _ in range(updates):
            metrics = agent.update(data) if isinstance(data, Transition) else agent.learn(data)
    grads = {name: opt.flat.grad.clone() for name, opt in optimisers(agent).items()}
    told = {k: v.detach().float().mean() for k, v in metrics.items() if isinstance(v, torch.Tensor)}
    return grads, told, agent


def close(found, wanted, tolerance=2e-6):
    scale = max(float(wanted.norm()), 1e-6)
    assert float((found - wanted).norm()) / scale < tolerance


def compare(cfg, spec, data, form):
    (grads, told, one), (wanted, said, other) = (learned(cfg, spec, data, f) for f in (form, "off"))
    assert grads.keys() == wanted.keys() and told.keys() == said.keys()
    for name in wanted:
        assert wanted[name].norm() > 0
        close(grads[name], wanted[name])
    for name in said:
        torch.testing.assert_close(told[name], said[name], rtol=1e-5, atol=1e-5)
    assert torch.equal(one.generator.get_state(), other.generator.get_state())


DQNS = {
    "plain": {"double": False},
    "double": {},
    "tanh": {"activation": "tanh"},
    "clipped targets": {"q_range": (-1.0, 0.5)},
    "normalised": {"normalise": True},
}


@pytest.mark.parametrize("case", DQNS)
def test_dqn(case, core):
    for form in forms(core):
        cfg = DQNConfig(**{**SMALL, "max_norm": 1e9, **DQNS[case]})
        compare(cfg, DISCRETE, batch(DISCRETE), form)
        compare(cfg, DISCRETE, strided(batch(DISCRETE)), form)
        compare(cfg, DISCRETE, batch(DISCRETE, weighted=True), form)
        compare(cfg, MASKED, batch(MASKED), form)


@pytest.mark.parametrize(
    "more", [{}, {"activation": "tanh"}, {"ensemble": 1}, {"ensemble": 4}, {"alpha": 0.3, "learn_alpha": False}]
)
def test_sac(more, core):
    for form in forms(core):
        if more.get("learn_alpha", True):
            compare(SACConfig(**SMALL, **more), CONTINUOUS, batch(CONTINUOUS), form)
            continue
        found, wanted = (
            learned(SACConfig(**SMALL, **more), CONTINUOUS, batch(CONTINUOUS), f)[0] for f in (form, "off")
        )
        close(found["actor_opt"], wanted["actor_opt"])
        assert found["alpha_opt"].norm() == 0


def test_sac_passes_no_gradient_to_a_log_std_outside_its_bounds(core):
    for form in forms(core):
        found = []
        for f in (form, "off"):
            agent = scramble(build(SACConfig(**SMALL), CONTINUOUS))
            agent.actor.layers[-1].bias.data[DIM:] = torch.tensor([3.0, -25.0, 0.0])
            with by_hand(f, able_by_hand(agent)):
                agent.update(batch(CONTINUOUS))
            found.append(agent.actor_opt.flat.grad.clone())
        close(*found)


@pytest.mark.parametrize("more", [{}, {"huber": True}, {"activation": "tanh"}])
def test_td3(more, core):
    for form in forms(core):
        compare(TD3Config(**SMALL, policy_delay=1, **more), CONTINUOUS, batch(CONTINUOUS), form)


PPOS = [{}, {"activation": "relu"}, {"value_clip": 0.3}, {"hidden": (16,)}]


@pytest.mark.parametrize("spec", [CONTINUOUS, DISCRETE], ids=["continuous", "discrete"])
@pytest.mark.parametrize("more", PPOS)
def test_ppo(spec, more, core):
    for form in forms(core):
        cfg = PPOConfig(**{**SMALL, "max_norm": 1e9, **more})
        given, agent = batch(spec), scramble(build(cfg, spec))
        with torch.no_grad():
            policy, value = agent.net(given.obs)
            log_prob = policy.log_prob(given.action) + 0.3 * torch.randn(ROWS)  # ratios on both sides of the clip range
            fields = [given.obs, given.action, log_prob, torch.randn(ROWS), value + torch.randn(ROWS), given.reward]
        for entropy in (0.0, 0.1):
            compare(cfg, spec, [*fields, 0.2, entropy], form)


def test_adam_clips_and_moves_as_torch_does(core):
    for one, max_norm in itertools.product(cores(core), (None, 0.5, 1e6)):
        found = []
        for move in (one.step, Optimizer.move):
            torch.manual_seed(0)
            opt = Optimizer(MLP(70, (33,), 3), lr=1e-2, eps=1e-5, max_norm=max_norm)
            draw = torch.Generator().manual_seed(1)
            for scale in (1.0, 1e-3, 10.0):
                opt.flat.grad.copy_(scale * torch.randn(opt.flat.grad.shape, generator=draw))
                move(opt)
            found.append((opt.flat.data.clone(), opt.first, opt.second, opt.count))
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b, rtol=2e-6, atol=1e-7)


def test_targets_move_as_torch_moves_them(core):
    for one, tau in itertools.product(cores(core), (1.0, 0.005)):
        source, targets = Flat(MLP(5, (8,), 2)), [Flat(MLP(5, (8,), 2)) for _ in range(2)]
        targets[1].data.copy_(targets[0].data)
        one.lerp(targets[0], source, tau)
        lerp_(targets[1], source, tau)
        torch.testing.assert_close(targets[0].data, targets[1].data, rtol=1e-6, atol=1e-7)


def test_functions_of_the_core_are_exact_far_from_zero(core):
    """tanh and its gradient at values where a polynomial or an exponential could fail."""
    for one in cores(core):
        net = MLP(1, (1,), None, activation="tanh")
        flat = Flat(net)
        flat.data.copy_(torch.tensor([1.0, 0.0]))
        x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([0.0, 1e-6, -1e-6, 90.0, -90.0, 1e30])])[:, None]
        y = one.net(layers_of(net), 1, "tanh").forward(x)
        torch.testing.assert_close(y, x.double().tanh().float(), rtol=3e-7, atol=1e-9)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "rows, widths",
    [(1, (4, 64, 2)), (12, (31, 33, 32)), (13, (17, 300, 1)), (64, (256, 256, 7)), (300, (23, 260, 9)), (520, (3, 40))],
)
def test_products_of_any_shape(rows, widths, threads, core):
    """Tiles, panels, and what is left at their edges; more rows or inputs than one panel has; few outputs."""
    if core is None:
        pytest.skip("no C++ compiler")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        net = MLP(widths[0], widths[1:-1], widths[-1])
        flat, x, grad = Flat(net), torch.randn(rows, widths[0], requires_grad=True), torch.randn(rows, widths[-1])
        shape = layers_of(net), net.hidden, "relu"
        (wanted,) = torch.autograd.grad(net(x), x, grad)
        told = []
        for one in (core, PlainCore()):
            made = one.net(*shape)
            found = made.forward(x.detach()).clone(), made.backward(grad, inputs=0).clone(), flat.grad.clone()
            told.append(found)
        for found, reference in zip(*told, strict=True):
            close(found, reference)
        close(told[0][1], wanted)
    finally:
        torch.set_num_threads(before)


def test_a_product_does_not_depend_on_the_number_of_threads(core):
    if core is None:
        pytest.skip("no C++ compiler")
    before, found = torch.get_num_threads(), []
    torch.manual_seed(0)
    net = MLP(200, (300, 300), 6)
    flat, x, grad = Flat(net), torch.randn(256, 200), torch.randn(256, 6)
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            made = core.net(layers_of(net), net.hidden, "relu")
            y = made.forward(x).clone()
            made.backward(grad)
            found.append((y, flat.grad.clone()))
    finally:
        torch.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        close(a, b, 1e-6)


def test_a_gradient_of_some_rows_and_inputs_is_that_of_autograd(core):
    for one, activation in itertools.product(cores(core), ("relu", "tanh")):
        torch.manual_seed(0)
        net = MLP(7, (16, 8), 1, activation=activation)
        flat, x = Flat(net), torch.randn(20, 7, requires_grad=True)
        (wanted,) = torch.autograd.grad(net(x).sum(), x)
        made = one.net(layers_of(net), net.hidden, activation)
        made.forward(x.detach())
        pick = torch.tensor([1, 4, 19])
        found = made.backward(torch.ones(3, 1), learn=False, inputs=5, pick=pick)
        close(found, wanted[pick][:, 5:])
        assert not flat.grad.any()


@pytest.mark.parametrize("explore", [True, False])
def test_agents_act_as_before(explore, core):
    for form, (cfg, spec) in itertools.product(
        forms(core), [(DQNConfig(epsilon=constant(0.5)), MASKED), (PPOConfig(), CONTINUOUS), (PPOConfig(), DISCRETE)]
    ):
        found = []
        for f in (form, "off"):
            agent = scramble(build(cfg, spec))
            with by_hand(f, able_by_hand(agent)):
                found.append(torch.stack([agent.act(batch(spec, seed=i).obs, explore=explore) for i in range(3)]))
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)


def test_many_updates_stay_together(core):
    for form in forms(core):
        for cfg, spec in ((DQNConfig(hidden=(16,), target_every=3), DISCRETE), (TD3Config(hidden=(16,)), CONTINUOUS)):
            found = [learned(cfg, spec, batch(spec), f, updates=20)[2].policy_parts for f in (form, "off")]
            for name, part in found[1].items():
                for a, b in zip(found[0][name].parameters(), part.parameters(), strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
