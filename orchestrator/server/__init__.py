"""One server for HTTP and for clients of OpenAI's: sessions, turns and questions under /v1, and the orchestrator as if it were a model.

Needs the extra `escalera[server]`.
"""

from orchestrator.server.app import create_app

__all__ = ["create_app"]
