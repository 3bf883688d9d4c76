"""What the server understands, as OpenAPI."""

from __future__ import annotations

from typing import Any

from ramify import __version__
from ramify.hierarchy import DECODINGS
from ramify.learner.edits import VERBS
from ramify.serve.limits import Limits

Json = dict[str, Any]
WRONG = {
    "400": "A parameter is missing or wrong",
    "401": "A token is needed",
    "403": "Another host's name, or a page of another site",
    "404": "There is no such image",
    "409": "Not possible in this state",
    "413": "More bytes or pixels than are read",
    "415": "Not an image that can be used",
    "422": "A label or an edit that cannot be carried out",
    "429": "Too many requests, or the queue is full: see Retry-After",
    "503": "Learning has stopped, or the server is ending",
}


def described(limits: Limits) -> Json:
    """The whole of it."""
    about = (
        f"A model that learns while it answers. A body has at most {limits.bytes:,} bytes, an image "
        f"{limits.pixels:,} pixels; {limits.queue:,} samples may wait to be learned"
        + (f"; {limits.rate:g} requests a second are taken from one address." if limits.rate else ".")
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "ramify serve", "version": __version__, "description": about},
        "paths": {path: _operations(path, table) for path, table in _paths().items()},
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def parameters(path: str) -> set[str] | None:
    """The names of what a path takes in its query; None for one that is not described."""
    if path not in _paths():
        return None
    return {one["name"] for how in _paths()[path].values() for one in how.get("parameters", ())}


def _paths() -> Json:
    image = {"required": False, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
    again = _query(
        "image", "the name of an image that was asked about, instead of a body", {"type": "string"}
    )
    edit = {"required": True, "content": {"application/json": {"schema": _ref("Edit")}}}
    return {
        "/predict": {
            "post": _operation(
                "Ask about an image",
                _ref("Answer"),
                "413 415 409 400 404",
                [
                    _query("decode", "how the answer is read", {"enum": list(DECODINGS), "default": "path"}),
                    _query(
                        "confidence", "0.9: only labels that are right nine times in ten", {"type": "number"}
                    ),
                    _query("keep", "0: the image is not kept to be labelled", {"enum": ["0"]}),
                    again,
                ],
                image,
            )
        },
        "/learn": {
            "post": _operation(
                "Teach an image; it is kept on disk, then answered, then learned in order",
                _ref("Receipt"),
                "413 415 422 400 404 429 503",
                [
                    _query("label", "a label; several for several levels", {"type": "string"}, True),
                    _query("level", "the level of each label, 1 the coarsest", {"type": "integer"}),
                    _query("key", "yours: a sample sent again under it is learned once", {"type": "string"}),
                    _query("source", "where it comes from, to forget all of it later", {"type": "string"}),
                    _query("new", "1: put labels that the given tree lacks into it", {"enum": ["1"]}),
                    _query("correct", "1: train on it until it is answered so", {"enum": ["1"]}),
                    again,
                ],
                image,
                ok="202",
            )
        },
        "/tree": {"get": _operation("The labels as a tree", _ref("Tree"))},
        "/labels": {"get": _operation("The labels of each level, with their paths", {"type": "object"})},
        "/edit": {
            "post": _operation("Change labels", {"type": "object"}, "400 409 422 503", body=edit),
        },
        "/undo": {"post": _operation("Take back the last edit", {"type": "object"}, "409 422 503")},
        "/history": {"get": _operation("The edits so far", {"type": "array", "items": {"type": "object"}})},
        "/why": {
            "get": _operation(
                "The stored images that speak for an answer",
                {"type": "array", "items": {"type": "object"}},
                "400 404",
                [again],
            )
        },
        "/queue": {
            "get": _operation("The images to label next", {"type": "array", "items": _ref("Answer")}),
        },
        "/status": {"get": _operation("What the page shows", {"type": "object"})},
        "/health": {"get": _operation("Whether all is well", {"type": "object"}, "503")},
        "/metrics": {
            "get": _operation(
                "Counts and times in Prometheus' text format", {"type": "string"}, kind="text/plain"
            )
        },
    }


def _operations(path: str, table: Json) -> Json:
    return {how: {"operationId": path.strip("/"), **operation} for how, operation in table.items()}


def _operation(
    summary: str,
    answer: Json,
    wrong: str = "",
    query: list[Json] | None = None,
    body: Json | None = None,
    ok: str = "200",
    kind: str = "application/json",
) -> Json:
    failure = {"application/json": {"schema": _ref("Error")}}
    responses: Json = {ok: {"description": "Done", "content": {kind: {"schema": answer}}}}
    for status in sorted({*wrong.split(), "401", "403", "429"}):
        responses[status] = {"description": WRONG[status], "content": failure}
    found: Json = {"summary": summary, "responses": responses}
    if query:
        found["parameters"] = query
    return found if body is None else found | {"requestBody": body}


def _query(name: str, told: str, schema: Json, required: bool = False) -> Json:
    return {"name": name, "in": "query", "description": told, "required": required, "schema": schema}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> Json:
    text, number, whole = {"type": "string"}, {"type": "number"}, {"type": "integer"}
    label = {"type": ["string", "integer"]}
    told = _object(level=whole, label=label, probability=number, confidence={"type": ["number", "null"]})
    return {
        "Error": _object(error=text),
        "Answer": _object(
            image=text,
            samples=whole,
            path={"type": "array", "items": told},
            top={"type": "object", "additionalProperties": {"type": "array", "items": told}},
            margin=number,
            new={"type": "array", "items": whole},
        ),
        "Receipt": _object(number=whole, ahead=whole, again={"type": "boolean"}, labels={"type": "object"}),
        "Tree": _object(
            label=label,
            level=whole,
            seen=whole,
            stored=whole,
            children={"type": "array", "items": _ref("Tree")},
        ),
        "Edit": {
            "type": "object",
            "required": ["edit"],
            "properties": {"edit": {"enum": list(VERBS)}, "level": whole},
            "additionalProperties": True,
            "description": "Other values: what Learner.edit takes, such as label, labels, into, new, parent",
        },
    }


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}
