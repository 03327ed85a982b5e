"""Models that a run could not use are refused before anybody is asked."""

import pytest

from kernelwright.api.models import ready_models
from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings, RoleModel

OTHER = {"planner": RoleModel(model="openai:other")}


def models(roles: dict[str, RoleModel], **more: object) -> ModelSettings:
    known = {"model": "openai:scripted", "base_url": "http://127.0.0.1:9/v1", "roles": roles}
    return ModelSettings.model_validate(known | more)


@pytest.mark.parametrize("recipes", [["kernelskill"], ["fsr", "best-of-n"]])
def test_a_planners_model_that_nobody_would_ask_is_refused(recipes: list[str]) -> None:
    with pytest.raises(UserError, match="--calls separate, or name the model for coder"):
        ready_models(models(OTHER), "llm", recipes, None)


@pytest.mark.parametrize(
    ("asked", "team", "recipes"),
    [
        (models(OTHER, calls="separate"), "llm", ["kernelskill"]),
        (models(OTHER), "llm", ["kernelskill", "stark"]),
        (models(OTHER), "expert+planner=llm", ["kernelskill"]),
        (models({}), "llm", ["kernelskill"]),
    ],
    ids=["two answers", "spans are marked", "the expert writes", "one model"],
)
def test_a_planners_model_that_somebody_asks_is_taken(
    asked: ModelSettings, team: str, recipes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.api.models.preflight", lambda models, temperatures: models)
    assert ready_models(asked, team, recipes, None) is not None
