"""Stripe's own OpenAPI document, as a judge of requests sent and answers given.

Written by hand because the document uses Stripe's dialect: ``nullable`` beside ``anyOf``, expandable fields, and form
bodies. It is stricter than the schemas: an answer may not hold a field the document does not know.
"""

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sandbox.forms import decode

HERE = Path(__file__).resolve()
PLACE = Path(os.environ.get("STRIPE_OPENAPI", HERE.parents[3] / "shared/data/stripe-openapi.min.json"))
ABSENT = f"Stripe's OpenAPI document is not at {PLACE}; set STRIPE_OPENAPI to check answers against it"

# Newer than the document (2026-08-26.dahlia), or left out of its pruned copy: seen in Stripe's answers (STRIPE.md).
_KNOWN_BESIDES = {"error.message_code", "error.payment_intent.last_payment_error.charge"}

_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "string": (str,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "number": (int, float),
}

Problems = list[str]


class Spec:
    """The document, with a walk over its schemas."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._schemas = document["components"]["schemas"]
        self._paths = [
            (
                re.compile("/".join("[^/]+" if part.startswith("{") else re.escape(part) for part in path.split("/"))),
                each,
            )
            for path, each in document["paths"].items()
        ]

    @classmethod
    def read(cls) -> "Spec | None":
        return cls(json.loads(PLACE.read_text())) if PLACE.exists() else None

    def operation(self, method: str, path: str) -> dict[str, Any] | None:
        """The operation at an address; literal paths win over those with a parameter."""
        fitting = [each for pattern, each in self._paths if pattern.fullmatch(path) and method.lower() in each]
        return fitting[0][method.lower()] if fitting else None

    def answer_problems(self, method: str, path: str, status: int, body: Any) -> Problems:
        """What is wrong with an answer; empty when nothing is."""
        operation = self.operation(method, path)
        if operation is None:
            return [] if status >= 400 else [f"{method} {path} is not in the document"]
        answers = operation["responses"]
        answer = answers.get(str(status), answers["default"])
        return self.value_problems(answer["content"]["application/json"]["schema"], body, "")

    def request_problems(self, method: str, path: str, text: str) -> Problems:
        """What is wrong with the parameters of a request, given its query or form body."""
        operation = self.operation(method, path)
        if operation is None:
            return [f"{method} {path} is not in the document"]
        if method == "GET":
            taken = {one["name"]: one["schema"] for one in operation.get("parameters", []) if one["in"] == "query"}
            schema = {"type": "object", "properties": taken, "additionalProperties": False}
        else:
            schema = operation["requestBody"]["content"]["application/x-www-form-urlencoded"]["schema"]
        return self.form_problems(schema, decode(text), "")

    def value_problems(self, schema: dict[str, Any], value: Any, at: str) -> Problems:
        if "$ref" in schema:
            return self.value_problems(self._schemas[schema["$ref"].rpartition("/")[2]], value, at)
        if value is None:
            return [] if schema.get("nullable") or schema.get("type") == "null" else [f"{at}: is null"]
        if "anyOf" in schema:
            found = [self.value_problems(choice, value, at) for choice in schema["anyOf"]]
            return min(found, key=len)
        return self._typed_problems(schema, value, at)

    def _typed_problems(self, schema: dict[str, Any], value: Any, at: str) -> Problems:
        kind = schema.get("type", "object")
        if type(value) not in _TYPES.get(kind, ()):
            return [f"{at}: {type(value).__name__} is not {kind}"]
        if kind == "string":
            return self._text_problems(schema, value, at)
        if kind == "array":
            return [
                problem
                for place, item in enumerate(value)
                for problem in self.value_problems(schema["items"], item, f"{at}[{place}]")
            ]
        return self._object_problems(schema, value, at) if kind == "object" else []

    @staticmethod
    def _text_problems(schema: dict[str, Any], value: str, at: str) -> Problems:
        problems = []
        if "enum" in schema and value not in schema["enum"] and not schema.get("x-stripeBypassValidation"):
            problems.append(f"{at}: {value!r} is none of {schema['enum']}")
        if len(value) > schema.get("maxLength", len(value)):
            problems.append(f"{at}: longer than {schema['maxLength']}")
        return problems

    def _object_problems(self, schema: dict[str, Any], value: dict[str, Any], at: str) -> Problems:
        properties, more = schema.get("properties", {}), schema.get("additionalProperties")
        problems = [f"{at}.{name}: is missing" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            inside = f"{at}.{name}".lstrip(".")
            if name in properties:
                problems += self.value_problems(properties[name], item, inside)
            elif isinstance(more, dict):
                problems += self.value_problems(more, item, inside)
            elif properties and inside not in _KNOWN_BESIDES:
                problems.append(f"{inside}: is not in the document")
        return problems

    def form_problems(self, schema: dict[str, Any], value: Any, at: str) -> Problems:
        """As ``value_problems``, for form values, which are all strings."""
        if "$ref" in schema:
            return self.form_problems(self._schemas[schema["$ref"].rpartition("/")[2]], value, at)
        if "anyOf" in schema:
            return min((self.form_problems(choice, value, at) for choice in schema["anyOf"]), key=len)
        kind = schema.get("type")
        if kind == "object":
            return self._form_object_problems(schema, value, at)
        if kind == "array":
            entries = list(value.values()) if isinstance(value, dict) else value
            if not isinstance(entries, list):
                return [f"{at}: is no array"]
            return [problem for item in entries for problem in self.form_problems(schema["items"], item, f"{at}[]")]
        if not isinstance(value, str):
            return [f"{at}: is no {kind}"]
        if kind == "integer":
            return [] if re.fullmatch(r"-?\d+", value) else [f"{at}: {value!r} is no integer"]
        if kind == "boolean":
            return [] if value in ("true", "false") else [f"{at}: {value!r} is no boolean"]
        return self._text_problems(schema, value, at)

    def _form_object_problems(self, schema: dict[str, Any], value: Any, at: str) -> Problems:
        if not isinstance(value, dict):
            return [f"{at}: is no object"]
        properties, more = schema.get("properties", {}), schema.get("additionalProperties")
        problems = [f"{at}.{name}: is missing" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            inside = f"{at}.{name}".lstrip(".")
            if name in properties:
                problems += self.form_problems(properties[name], item, inside)
            elif isinstance(more, dict):
                problems += self.form_problems(more, item, inside)
            else:
                problems.append(f"{inside}: is not taken")
        return problems


def plain_path(url: str) -> tuple[str, str]:
    """The path of an address without its host, and the query."""
    rest = re.sub(r"^https?://[^/]+", "", url)
    path, _, query = rest.partition("?")
    return unquote(path), query
