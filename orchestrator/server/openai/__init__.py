"""The orchestrator as if it were a model: POST /v1/chat/completions, POST /v1/responses, GET /v1/models."""
