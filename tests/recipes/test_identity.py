"""Settings are told apart by a hash that neither the seed nor the machine changes."""

import json
from dataclasses import fields, replace

import pytest

from cairn.core.schedules import constant
from cairn.core.serialise import from_json, to_json
from cairn.recipes import RECIPES
from cairn.recipes.identity import DECIDES, NOT_HASHED, RESUMABLE, commit, config_hash, differences, hardware
from cairn.recipes.recipe import Recipe


def test_what_is_trained_changes_the_hash_and_where_does_not():
    recipe = RECIPES["cartpole-ppo"]
    same = replace(recipe, seed=9, device="cuda", threads=7, vector="ray", workers=3, log_every=1, result_episodes=7)
    same = replace(same, native="python")
    assert config_hash(same) == config_hash(recipe)
    others = [
        replace(recipe, steps=recipe.steps + 1),
        replace(recipe, env_args={"x": 1}),
        replace(recipe, agent=replace(recipe.agent, gamma=0.5)),
        replace(recipe, agent=replace(recipe.agent, lr=constant(1.0))),
        RECIPES["cartpole-a2c"],
    ]
    assert len({config_hash(r) for r in [recipe, *others]}) == 1 + len(others)


def test_what_is_as_by_default_is_no_part_of_the_hash():
    recipe = RECIPES["cartpole-ppo"]
    kind = type(recipe.agent)
    assert recipe.agent.max_norm == kind().max_norm
    assert config_hash(replace(recipe, agent=replace(recipe.agent, max_norm=kind().max_norm))) == config_hash(recipe)
    assert len({config_hash(r) for r in RECIPES.values()}) == len(RECIPES)


def test_the_table_names_each_field_of_a_recipe_once():
    """A field that is added must be given its row."""
    named = [name for row in DECIDES.values() for name in row.split()]
    assert sorted(named) == sorted(f.name for f in fields(Recipe))


def test_hash_and_resume_rule_follow_from_the_table():
    apart = "name about seed log log_every result_episodes device threads env_timeout ray_address vector workers native"
    apart += " learners"
    assert frozenset(apart.split()) == NOT_HASHED
    assert {"steps", "target", "hold", "eval_every", "device", "name"} <= RESUMABLE
    assert not RESUMABLE & {"seed", "agent", "env", "vector", "workers", "envs", "native"}


def test_hashes_stay_those_that_results_were_recorded_with():
    recorded = {"cartpole-ppo": "acc9a64c55f8", "bipedal-dagger": "d7d09e7268f7"}
    assert {name: config_hash(RECIPES[name]) for name in recorded} == recorded


def test_differences_are_named_by_their_options():
    recipe = RECIPES["cartpole-ppo"]
    other = replace(recipe, seed=9, agent=replace(recipe.agent, gamma=0.5))
    assert differences(to_json(recipe), to_json(other)) == [
        ("agent.gamma", recipe.agent.gamma, 0.5),
        ("seed", recipe.seed, 9),
    ]


def test_code_and_machine_in_words():
    assert commit() is None or len(commit().rstrip("+")) == 12
    assert "cores of" in hardware("cpu") and "\n" not in hardware("cpu")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_that_was_written_and_read_has_the_same_hash(name):
    recipe = RECIPES[name]
    assert config_hash(from_json(Recipe, json.loads(json.dumps(to_json(recipe))))) == config_hash(recipe)
