"""Its options, strict and lax."""

from pydantic import BaseModel, ConfigDict, SecretStr


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    base_url: str
    model: str | None = None
    api_key: SecretStr | None = None
    fault: str = ""


class LaxOptions(Options):
    model_config = ConfigDict(extra="ignore")
