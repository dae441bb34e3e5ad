"""The texts that stay the same for a session and an agent, so that prompt caches hold (page 2)."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.messages import well_formed
from orchestrator.providers import SystemBlock
from orchestrator.quoting import clipped, fenced, one_line
from orchestrator.session import Role
from orchestrator.tags import neutralise, tag
from orchestrator.templates import Templates

MAX_PROJECT_INSTRUCTIONS = 12_000
"""Characters of the workspace's AGENTS.md that are sent at most."""

_MAX_NAME = 60
_MAX_OTHERS = 8


def static_blocks(
    templates: Templates,
    *,
    role: Role,
    agent: str,
    other_agents: Sequence[str],
    takes_tools: bool,
    takes_tags: bool = True,
    hands_over: bool = True,
    nonce: str,
    agent_prompt: str,
    project_instructions: str = "",
    project_chars: int = MAX_PROJECT_INSTRUCTIONS,
    client_prompt: str = "",
) -> tuple[SystemBlock, ...]:
    """The blocks `identity`, `instructions`, `project_instructions`, `agent_prompt`, `client_prompt`, blank ones left out.

    `other_agents` are those that play the other role. `project_instructions` is for agents that do not read AGENTS.md by themselves,
    and only where the workspace is trusted (page 5). Identity and instructions stay under 3,000 characters together.
    """
    others = [one_line(name, _MAX_NAME) for name in other_agents]
    texts = {
        "identity": templates.render_once("identity", role=role.value, agent=one_line(agent, _MAX_NAME), others=_listed(others)),
        "instructions": templates.render_once(
            "instructions",
            hands_over=hands_over and role is Role.PRIMARY,
            takes_tools=takes_tools,
            takes_tags=takes_tags,
            need_tag=tag("need", "the goal in one sentence", nonce),
            percept_tag=tag("percept", "the fact in one sentence", nonce),
            escalate_tag=tag("escalate", "why, and what you found out so far", nonce),
        ),
        "project_instructions": _project(templates, clipped(project_instructions, project_chars)),
        "agent_prompt": neutralise(well_formed(agent_prompt)).strip(),
        "client_prompt": neutralise(well_formed(client_prompt)).strip(),
    }
    return tuple(SystemBlock(name, text) for name, text in texts.items() if text)


def _listed(names: Sequence[str]) -> str:
    shown = names[:_MAX_OTHERS]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _project(templates: Templates, text: str) -> str:
    quoted = fenced(text)
    return templates.render("project_instructions", text=quoted) if quoted else ""
