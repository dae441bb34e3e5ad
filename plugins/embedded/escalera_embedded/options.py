"""The options that embedded agents take."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class EmbeddedOptions(BaseModel):
    """Options of `provider = "embedded"`. The defaults make a turn of the small model take seconds on two cores."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model_path: Path | None = Field(default=None, description="A GGUF file; without it the SmolLM2-135M that comes with the plugin.")
    threads: int = Field(default_factory=lambda: max(1, (os.cpu_count() or 2) - 1), ge=1, description="Threads of inference; all cores but one.")
    context_window_tokens: int = Field(default=4096, ge=256, description="The window, prompt and answer together. SmolLM2 knows up to 8192.")
    max_output_tokens: int = Field(default=192, ge=1, description="Tokens of one answer; small, so that a turn takes seconds.")
    temperature: float = Field(default=0.0, ge=0.0, le=2.0, description="0 gives the same answer every time.")
