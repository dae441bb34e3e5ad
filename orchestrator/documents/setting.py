"""Settings as documents show them: the value, where it comes from, and what it shadows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.settings.resolution import Explained

if TYPE_CHECKING:
    from orchestrator.documents.kinds.settings import SettingDocument, SettingObject, SettingsDocument


def settings_document(settings: Sequence[Explained]) -> SettingsDocument:
    return {"format": "escalera.settings/1", "settings": [setting_object(setting) for setting in settings]}


def setting_document(setting: Explained) -> SettingDocument:
    document: SettingDocument = {"format": "escalera.setting/1", **setting_object(setting)}  # type: ignore[typeddict-item]  # `written` is not required
    return document


def setting_object(setting: Explained) -> SettingObject:
    return {
        "path": setting.path,
        "value": setting.value,
        "default": setting.default,
        "source": setting.source,
        "shadowed": [{"source": source, "value": value} for source, value in setting.shadowed],
        "type": setting.type,
        "unit": setting.unit,
        "help": setting.help,
        "flag": setting.flag,
        "env": setting.env,
    }
