"""Histories with any damage become bodies that Converse takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from escalera_bedrock.body import Shape, as_json, converse_body
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.history.normalise import normalise
from orchestrator.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult

from .conftest import MODEL, REQUEST, TOOL, violations

texts = st.sampled_from(["", " ", "\n", "hello", "a\x00b", "half \ud83d", "😀", "long " * 50])
ids = st.sampled_from(["", " ", "t1", "t2", "функция", "x" * 80, "functions.save:0"])
extras = st.sampled_from([None, {}, {"redacted": "AAEC"}, {"redacted": "no base64!"}, {"redacted": 5}, {"other": 1}])
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts, extras),
    st.builds(Reasoning, texts, st.just(MODEL), st.sampled_from([None, "", "c2ln"]), extras),
    st.builds(ToolCall, ids, st.sampled_from(["search", "", "fs.read", "y" * 90]), st.dictionaries(texts, texts, max_size=2)),
    st.builds(ToolResult, ids, texts, st.booleans()),
)
messages = st.lists(st.builds(Message, st.sampled_from(["user", "assistant", "system"]), st.lists(parts, max_size=4).map(tuple)), max_size=8)


@pytest.fixture(scope="module")
def shape_of_converse() -> object:
    service = ServiceModel(Loader(include_default_search_paths=True).load_service_model("bedrock-runtime", "service-2"))
    return service.operation_model("ConverseStream").input_shape


@given(messages, st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_damaged_histories_become_bodies_without_a_fault(shape_of_converse: object, damaged: list[Message], tools: bool, caching: bool) -> None:
    request = replace(REQUEST, messages=normalise((*damaged, Message("user", (Text("now"),))), "bedrock"), tools=(TOOL,) if tools else ())

    body = converse_body(request, Shape(caching=caching))

    assert violations(as_json(body)) == []
    thoughts = [block["reasoningContent"] for message in body["messages"] for block in message["content"] if "reasoningContent" in block]
    assert all(thought.get("redactedContent") or thought["reasoningText"]["signature"] for thought in thoughts)
    problems = ParamValidator().validate({"modelId": MODEL, **body}, shape_of_converse)
    assert not problems.has_errors(), problems.generate_report()
