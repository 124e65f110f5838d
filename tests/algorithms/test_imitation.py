"""What the imitators compute: losses, signals, ranges, and the natural gradient against a matrix written out."""

from dataclasses import replace

import pytest
import torch

from cairn.algorithms import (
    BC,
    AggreVaTe,
    AggreVaTeConfig,
    AggreVaTeD,
    AggreVaTeDConfig,
    BCConfig,
    DAgger,
    DAggerConfig,
    PPOConfig,
    ReinforceConfig,
)
from cairn.algorithms.imitation.aggrevated import conjugate_gradient, divergence, flat, frozen, one_step
from cairn.core.errors import CairnError
from cairn.core.losses import policy_gradient
from cairn.core.schedules import constant, mixing
from cairn.core.state import pack, unpack
from cairn.core.types import Box, Discrete, Spec
from cairn.nets.heads import Categorical, Gaussian

FEW = Spec((3,), "float32", Discrete(4))
REAL = Spec((3,), "float32", Box((2,), (-2.0, -2.0), (2.0, 2.0)))
FREE = Spec((3,), "float32", Box((2,), (-torch.inf, -torch.inf), (torch.inf, torch.inf)))
OBS = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
SMALL = ReinforceConfig(hidden=(8,))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("exponential", [0.8, 0.4, 0.2, 0.1]),
        ("harmonic", [0.8, 0.4, 0.8 / 3, 0.2]),
        ("linear", [0.8, 0.4, 0.0, 0.0]),
    ],
)
def test_the_learner_is_let_go(kind, values):
    assert [mixing(kind, n, start=0.8, decay=0.5) for n in range(4)] == pytest.approx(values)
    agent = DAgger(DAggerConfig(mixing=kind, alpha_start=0.8, alpha_decay=0.5), FEW)
    agent.counts[0] = 3
    assert agent.alpha == pytest.approx(values[3])


def test_a_cloner_is_never_let_go():
    agent = BC(BCConfig(), FEW)
    agent.counts[0] = 1000
    assert agent.alpha == 1.0


@pytest.mark.parametrize("spec", [FEW, REAL, FREE])
def test_cloning_fits_what_it_is_shown(spec):
    agent = BC(BCConfig(hidden=(32,), lr=constant(1e-2)), spec)
    wanted = OBS[:, :2].clamp(-0.9, 0.9) * (3 if spec is FREE else 1) if spec is not FEW else OBS.abs().argmax(1)
    for _ in range(400):
        loss = agent.update(OBS, wanted)["train/loss"]
    done = agent.act(OBS, explore=False)
    if spec is FEW:
        assert (done == wanted).float().mean() > 0.95
    else:
        assert loss < 0.02 and (done - wanted).abs().mean() < 0.1
        assert torch.equal(done, agent.act(OBS, explore=True))  # nothing random about it


def test_aggrevate_takes_what_is_judged_best():
    agent = AggreVaTe(AggreVaTeConfig(hidden=(32,), lr=constant(1e-2)), FEW)
    best = OBS.argmax(1)
    for _ in range(400):
        tried = agent.drawn(OBS)
        agent.update(OBS, tried, (tried == best).float() - 1)
    assert (agent.act(OBS, explore=False) == best).float().mean() > 0.95
    assert (agent.act(OBS, explore=True) == agent.act(OBS, explore=False)).all()  # a policy without chance
    counts = torch.bincount(torch.cat([agent.drawn(OBS) for _ in range(50)]), minlength=4)
    assert (counts / counts.sum() - 0.25).abs().max() < 0.03  # what is judged is drawn uniformly


def test_aggrevate_is_for_a_few_actions():
    with pytest.raises(CairnError, match="use aggrevated"):
        AggreVaTe(AggreVaTeConfig(), REAL)


def test_a_state_is_an_episode_of_one_step_that_pays_the_advantage():
    """So REINFORCE's target and PPO's advantage are A* itself, whatever their γ and λ."""
    paid, action = torch.randn(64), torch.randint(4, (64,))
    agent = AggreVaTeD(AggreVaTeDConfig(SMALL), FEW)
    rollout = one_step(OBS, action, paid)
    assert torch.equal(agent.learner.reward_to_go(rollout, torch.randn(1, 64))[0], paid)
    ppo = AggreVaTeD(AggreVaTeDConfig(PPOConfig(hidden=(8,))), FEW)
    _, _, _, advantage, value, target = ppo.learner.prepare(rollout)
    assert torch.allclose(advantage, paid - value) and torch.allclose(target, paid)


def test_the_signal_is_what_an_action_gains_over_the_expert():
    q, v = torch.tensor([1.0, 3.0, 5.0]), torch.tensor([2.0, 2.0, 6.0])
    assert AggreVaTeD(AggreVaTeDConfig(SMALL), FEW).signal(q, v).tolist() == [-1.0, 1.0, -1.0]
    mistaken = AggreVaTeD(AggreVaTeDConfig(SMALL, mistaken_minmax=True), FEW)
    assert mistaken.signal(q, v).tolist() == pytest.approx([0.0, 0.5, 1.0])  # none is bad, and V* has no say
    assert mistaken.learner.cfg.baseline == "none" and not mistaken.learner.cfg.normalise_advantage


@pytest.mark.parametrize("learner", [ReinforceConfig(lr=constant(3.0)), PPOConfig(lr=constant(3.0), epochs=1)])
@pytest.mark.parametrize(("action", "bound"), [(100.0, 1.0), (0.0, -10.0)])
def test_log_std_stays_within_its_bounds(learner, action, bound):
    """A single long step, for actions far off that are praised, or for the mean itself."""
    agent = AggreVaTeD(AggreVaTeDConfig(replace(learner, log_std=0.9 if bound > 0 else -9.0)), REAL)
    seen, drawn = torch.zeros(64, 3), torch.full((64, 2), action)
    agent._step(seen, drawn, torch.linspace(0.0, 2.0, 64))
    assert agent.net.log_std.min() >= -10 and agent.net.log_std.max() <= 1
    if isinstance(learner, ReinforceConfig):
        assert agent.net.log_std.tolist() == [bound, bound]  # it was held there


def test_the_mistaken_log_std_does_not_move():
    agent = AggreVaTeD(AggreVaTeDConfig(SMALL, mistaken_log_std=True), REAL)
    for _ in range(3):
        agent.update(OBS, torch.randn(64, 2), torch.randn(64), torch.zeros(64))
        assert agent.net.log_std.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("learner", [SMALL, PPOConfig(hidden=(8,))])
@pytest.mark.parametrize("spec", [FEW, REAL])
def test_a_learner_can_begin_as_a_clone(learner, spec):
    """It takes the expert's actions, and keeps the σ it has to try others with."""
    wanted = OBS.argmax(1) if spec is FEW else OBS[:, :2].clamp(-0.9, 0.9)
    agent = AggreVaTeD(AggreVaTeDConfig(learner, clone=300, clone_lr=1e-2, clone_batch=64), spec)
    before = agent.net.log_std.tolist()
    agent.clone(OBS, wanted)
    apart = (agent.act(OBS, explore=False) - wanted).abs().float()
    assert apart.mean() < 0.1 and agent.net.log_std.tolist() == before


def test_the_average_of_the_weights_is_what_is_scored_and_saved():
    cfg = AggreVaTeDConfig(replace(SMALL, normalise_obs=True, lr=constant(1e-2)), average=0.25)
    agent = AggreVaTeD(cfg, REAL)
    q = torch.randn(64)
    mean = agent.learner.opt.flat.data.clone()
    for _ in range(3):
        agent.update(OBS, agent.act(OBS, explore=True), q, torch.zeros(64))
        mean = mean.lerp(agent.learner.opt.flat.data, 0.25)
    torch.testing.assert_close(agent.mean_flat.data, mean)
    assert not torch.equal(agent.act(OBS, explore=False), agent.learner.act(OBS, explore=False))
    copied = AggreVaTeD(cfg, REAL, seed=1)
    unpack(copied.policy_parts, pack(agent.policy_parts))
    torch.testing.assert_close(copied.act(OBS, explore=False), agent.act(OBS, explore=False))


@pytest.mark.parametrize("learner", [ReinforceConfig(normalise_obs=True), PPOConfig(normalise_obs=True)])
def test_inputs_do_not_move_under_the_learner(learner):
    """What the first states look like is kept: later ones, of a learner that falls, are of another world."""
    agent = AggreVaTeD(AggreVaTeDConfig(learner), REAL)
    for shift in (0.0, 100.0):
        agent.update(OBS + shift, torch.zeros(64, 2), torch.randn(64), torch.zeros(64))
        assert torch.allclose(agent.net.normalizer.mean.float(), OBS.mean(0), atol=1e-6)


def test_each_iteration_is_a_loss_of_its_own():
    """Adam begins anew: moments of other states would make its first steps too long."""
    agent = AggreVaTeD(AggreVaTeDConfig(SMALL, updates=5, batch_size=16), REAL)
    for _ in range(2):
        agent.update(OBS, torch.zeros(64, 2), torch.zeros(64), torch.zeros(64), lambda obs, action: action.sum(1))
        assert int(agent.learner.opt.count) == 5


def test_a_learner_compared_with_itself_is_paid_nothing_for_its_own_mode(monkeypatch):
    agent = AggreVaTeD(AggreVaTeDConfig(SMALL, updates=3, batch_size=16, against="own"), REAL)
    paid = []
    monkeypatch.setattr(agent, "_step", lambda obs, action, gain: paid.append((action, gain)) or {})
    agent.update(OBS, torch.zeros(64, 2), torch.zeros(64), torch.full((64,), 7.0), lambda obs, action: action.sum(1))
    for action, gain in paid:  # an untrained mode is all but zero
        assert torch.allclose(gain, action.sum(1), atol=0.2)


def test_mirrored_actions_lie_evenly_about_the_mode(monkeypatch):
    agent = AggreVaTeD(AggreVaTeDConfig(SMALL, updates=3, batch_size=16, against="own", mirrored=True), REAL)
    seen = []
    monkeypatch.setattr(agent, "_step", lambda obs, action, gain: seen.append((obs, action, gain)) or {})
    agent.update(OBS, torch.zeros(64, 2), torch.zeros(64), torch.zeros(64), lambda obs, action: action.sum(1))
    for obs, action, gain in seen:
        assert torch.equal(obs[:16], obs[16:]) and len(obs) == 32
        assert torch.allclose((action[:16] + action[16:]) / 2, agent.act(obs[:16], explore=False), atol=1e-6)
        assert torch.allclose(gain[:16], -gain[16:], atol=1e-6) and gain.abs().max() > 0.1
    assert int(agent.counts[1]) == 3 * 32


@pytest.mark.parametrize("learner", [SMALL, PPOConfig(hidden=(8,))])
def test_every_update_of_an_iteration_draws_its_own_actions(learner):
    agent = AggreVaTeD(AggreVaTeDConfig(learner, updates=5, batch_size=16), REAL)
    asked = []

    def judge(obs, action):
        asked.append((obs, action, agent.net.policy(obs).mean))
        return -action.square().sum(1)

    agent.update(OBS, torch.zeros(64, 2), torch.zeros(64), torch.zeros(64), judge)
    assert [len(obs) for obs, _, _ in asked] == [16] * 5
    assert len({float(action.sum()) for _, action, _ in asked}) == 5
    assert not torch.equal(agent.net.policy(asked[0][0]).mean, asked[0][2])  # and moved on between them


@pytest.mark.parametrize(
    ("cfg", "words"),
    [
        (
            AggreVaTeDConfig(PPOConfig(), gradient="natural"),
            "agent.gradient is natural, which works with reinforce only",
        ),
        (AggreVaTeDConfig(SMALL, updates=5, values="fitted"), "it must be 1"),
        (AggreVaTeDConfig(SMALL, against="own"), "needs agent.updates above 1"),
        (AggreVaTeDConfig(SMALL, updates=2, mirrored=True), "agent.mirrored needs continuous actions"),
        (AggreVaTeDConfig(SMALL, noise=0.1), "agent.noise is for continuous actions"),
        (AggreVaTeDConfig(SMALL, alpha_decay=1.5), "agent.alpha_decay is 1.5"),
        (AggreVaTeDConfig(ReinforceConfig(gamma=2.0)), "agent.learner.gamma is 2"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(cfg, words):
    with pytest.raises(CairnError, match=words):
        AggreVaTeD(cfg, FEW)


def test_conjugate_gradients_solve():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(12, 12, generator=generator, dtype=torch.float64)
    matrix, b = root @ root.T + torch.eye(12), torch.randn(12, generator=generator, dtype=torch.float64)
    x = conjugate_gradient(lambda x: matrix @ x, b, 50)
    assert torch.allclose(x, torch.linalg.solve(matrix, b), atol=1e-6)
    assert torch.equal(conjugate_gradient(lambda x: matrix @ x, 0 * b, 5), 0 * b)


@pytest.mark.parametrize("spec", [FEW, REAL])
def test_divergence_is_the_mean_difference_of_log_probabilities(spec):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(1, 4 if spec is FEW else 2, generator=generator) for _ in range(2))
    spread = torch.tensor([0.3, -0.5])
    old, new = (Categorical(a), Categorical(b)) if spec is FEW else (Gaussian(a, spread), Gaussian(b, -spread))
    wide = [type(d)(*(x.expand(200_000, -1) for x in d.__dict__.values())) for d in (old, new)]
    action = wide[0].sample(generator)
    estimate = (wide[0].log_prob(action) - wide[1].log_prob(action)).mean()
    assert float(divergence(old, new)) == pytest.approx(float(estimate), rel=0.03)
    assert divergence(old, frozen(old)).abs().max() < 1e-6


@pytest.mark.parametrize("spec", [FEW, REAL])
def test_a_natural_step_is_the_fisher_matrix_solved(spec):
    """Against the matrix itself, E ∇log π ∇log πᵀ, over every action or many drawn ones."""
    cfg = AggreVaTeDConfig(ReinforceConfig(hidden=(4,)), gradient="natural", cg_steps=200, damping=0.01, max_kl=1e-4)
    agent = AggreVaTeD(cfg, spec)
    params = list(agent.net.parameters())
    with torch.no_grad():
        agent.net.policy_head.weight *= 50
    obs = OBS[:6]
    action = agent.act(obs, explore=True)
    paid = torch.randn(6, generator=torch.Generator().manual_seed(1))

    def scores(obs, action):
        log_prob = agent.net.policy(obs).log_prob(action)
        rows = [torch.autograd.grad(x, params, retain_graph=True, materialize_grads=True) for x in log_prob]
        return torch.stack([flat(row) for row in rows])

    if spec is FEW:
        fisher = 0
        for a in range(4):
            weight = agent.net.policy(obs).log_prob(torch.full((6,), a)).exp().detach()
            s = scores(obs, torch.full((6,), a))
            fisher = fisher + (s * weight[:, None]).T @ s / 6
    else:  # of a Gaussian: JᵀΣ⁻¹J of the means, and 2 for each log σ
        mean = agent.net.policy(obs).mean
        rows = [flat(torch.autograd.grad(x, params, retain_graph=True, materialize_grads=True)) for x in mean.flatten()]
        fisher = torch.stack(rows).T @ torch.stack(rows) / 6
        at = flat([torch.full_like(p, float(p is agent.net.log_std)) for p in params])
        fisher = fisher + 2 * torch.diag(at)
    gain = -policy_gradient(agent.net.policy(obs).log_prob(action), paid)
    g = flat(torch.autograd.grad(gain, params, materialize_grads=True))
    x = torch.linalg.solve((fisher + 0.01 * torch.eye(len(g))).double(), g.double()).float()
    wanted = (2e-4 / (x @ fisher @ x)).sqrt() * x
    before = agent.learner.opt.flat.data.clone()
    metrics = agent.update(obs, action, paid, torch.zeros(6))
    moved = agent.learner.opt.flat.data - before
    assert torch.allclose(moved, wanted, atol=2e-4, rtol=0.02)
    assert float(metrics["train/kl"]) == pytest.approx(1e-4, rel=0.2)  # as far as was asked


def test_a_large_batch_can_be_differentiated_twice():
    """Large tensors take another way through tanh."""
    agent = AggreVaTeD(AggreVaTeDConfig(ReinforceConfig(hidden=(64,)), gradient="natural"), REAL)
    draw = torch.Generator().manual_seed(0)
    obs, judged = torch.randn(2048, 3, generator=draw), torch.randn(2048, generator=draw)
    metrics = agent.update(obs, agent.act(obs, explore=True), judged, torch.zeros(2048))
    assert float(metrics["train/kl"]) == pytest.approx(0.01, rel=0.5)
