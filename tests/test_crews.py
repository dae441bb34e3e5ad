"""How long the agents of a workspace are kept, and when they are let go of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator.crew import Crew
from orchestrator.crews import Crews
from orchestrator.premises import Premises

W = "/workspace"


class Closing(Crew):
    """Notes that it was let go of."""

    closed = 0

    def close(self) -> Sequence[str]:
        self.closed += 1
        return super().close()


class Stage(Premises):
    """Premises whose settings are read anew from their file."""

    def crew(self, workspace: str, **options: Any) -> Closing:
        made = Closing(self.settings, {}, environ={}, workspace=workspace, **options)
        self._crews.append(made)
        return made


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    file = tmp_path / "config.toml"
    file.write_text("")
    return Stage(environ={"ESCALERA_HOME": str(tmp_path / "home")}, cwd=tmp_path, config_file=file, sets=(), flags={}, tell=lambda _: None)


@pytest.fixture
def change(stage: Stage, tmp_path: Path) -> Callable[[], None]:
    def write() -> None:
        (tmp_path / "config.toml").write_text('session_wait = "3s"\n')
        stage.refresh()

    return write


def closed(crew: Crew) -> int:
    return crew.closed if isinstance(crew, Closing) else -1


def test_turns_share_the_agents_of_their_workspace(stage: Stage) -> None:
    crews = Crews()

    with crews.at_work(stage, W) as one, crews.at_work(stage, W) as two, crews.at_work(stage, "/other") as other:
        assert one is two is not other
    with crews.at_work(stage, W) as three:
        assert three is one

    assert (closed(one), closed(other)) == (0, 0)


def test_agents_of_other_settings_are_let_go_of_by_the_next_turn(stage: Stage, change: Callable[[], None]) -> None:
    crews = Crews()
    with crews.at_work(stage, W) as old:
        pass

    change()
    assert closed(old) == 0
    with crews.at_work(stage, W) as new:
        assert new is not old
        assert (closed(old), closed(new)) == (1, 0)

    assert (closed(old), closed(new)) == (1, 0)


def test_agents_at_work_are_let_go_of_when_their_last_turn_has_ended(stage: Stage, change: Callable[[], None]) -> None:
    crews, first, second = Crews(), ExitStack(), ExitStack()
    old = first.enter_context(crews.at_work(stage, W))
    second.enter_context(crews.at_work(stage, W))
    change()
    with crews.at_work(stage, W):
        first.close()
        assert closed(old) == 0
        second.close()
        assert closed(old) == 1


def test_a_turn_with_a_time_of_its_own_has_agents_of_its_own(stage: Stage) -> None:
    crews = Crews()
    with crews.at_work(stage, W) as kept, crews.at_work(stage, W, turn_timeout=5.0) as own:
        assert own is not kept

    assert (closed(kept), closed(own)) == (0, 1)


def test_a_turn_that_fails_gives_them_back(stage: Stage, change: Callable[[], None]) -> None:
    crews = Crews()

    def fail() -> None:
        with crews.at_work(stage, W) as crew:
            taken.append(crew)
            raise ValueError("no")

    taken: list[Crew] = []
    with pytest.raises(ValueError, match="no"):
        fail()
    change()

    with crews.at_work(stage, W):
        assert [closed(crew) for crew in taken] == [1]
