"""Every JSON document that is printed, declared once (page 6): mypy holds the writers to it, and the JSON Schemas are generated from it.

Nothing imports these modules but the type checker, `schemas` and the server, so that a declaration costs no start anything. Keys are the contract of
page 6: they may be added, never changed or removed. Absent keys are said to be (`NotRequired`); all others always stand there, as null if need be.
"""

from __future__ import annotations

from orchestrator.documents.kinds.agents import AgentDocument, AgentsDocument, ChecksDocument
from orchestrator.documents.kinds.artifacts import ArtifactDocument, ArtifactsDocument
from orchestrator.documents.kinds.diagnosis import DoctorDocument, NotificationDocument, WireDocument
from orchestrator.documents.kinds.memory import (
    ArchiveDocument,
    ConsolidatedDocument,
    ImportedDocument,
    MemoryDocument,
    PerceptDocument,
    PerceptsDocument,
    StaleDocument,
    WhyDocument,
)
from orchestrator.documents.kinds.permissions import PermissionsDocument
from orchestrator.documents.kinds.plans import PlanDiffDocument, PlanDocument
from orchestrator.documents.kinds.plugins import ConformanceDocument, PackageDocument, PluginsDocument
from orchestrator.documents.kinds.questions import QuestionDocument, QuestionsDocument, WaitingDocument
from orchestrator.documents.kinds.receipts import ReceiptDocument
from orchestrator.documents.kinds.sessions import HitsDocument, NeedDocument, SessionRefDocument, SessionsDocument
from orchestrator.documents.kinds.settings import PathsDocument, ProjectFileDocument, SettingDocument, SettingsDocument, TemplatesDocument, TrustedDocument
from orchestrator.documents.kinds.tasks import TaskDocument, TasksDocument
from orchestrator.documents.kinds.tuning import TuneDocument
from orchestrator.documents.kinds.turns import ErrorDocument, ProblemDocument, TurnDocument
from orchestrator.documents.kinds.usage import UsageDocument

Document = (
    TurnDocument
    | ErrorDocument
    | PlanDocument
    | ReceiptDocument
    | PlanDiffDocument
    | TuneDocument
    | SessionsDocument
    | HitsDocument
    | SessionRefDocument
    | NeedDocument
    | PerceptsDocument
    | PerceptDocument
    | QuestionsDocument
    | QuestionDocument
    | PermissionsDocument
    | TasksDocument
    | TaskDocument
    | ArtifactsDocument
    | ArtifactDocument
    | WhyDocument
    | StaleDocument
    | ArchiveDocument
    | ConsolidatedDocument
    | ImportedDocument
    | MemoryDocument
    | AgentsDocument
    | AgentDocument
    | ChecksDocument
    | DoctorDocument
    | WireDocument
    | NotificationDocument
    | UsageDocument
    | PluginsDocument
    | ConformanceDocument
    | PackageDocument
    | SettingsDocument
    | SettingDocument
    | TemplatesDocument
    | PathsDocument
    | ProjectFileDocument
    | TrustedDocument
)
"""All that commands print but the session document, whose declaration (`models`) is also what reads it."""
ServerDocument = ProblemDocument | WaitingDocument
"""What only the server answers."""
