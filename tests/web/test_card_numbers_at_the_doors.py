"""S76 at every door there is: the forms and bodies are found, not listed, so that a new one is covered by itself."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from flask import Flask
from pydantic import TypeAdapter, ValidationError
from werkzeug.datastructures import MultiDict
from wtforms import Field, HiddenField, PasswordField, StringField

import console
from console.api.bodies import Body
from console.forms import NOT_MASKED, ConsoleForm

CARD = "4242424242424242"
SPELLED = (CARD, "4242 4242 4242 4242", "my card 4242-4242-4242-4242 thanks")
# Hidden fields carry codes of ours that are compared, never words of a person.
OF_OURS = {
    "operation", "csrf_token", "answer", "fingerprint", "nonce", "seen", "document", "step", "currency", "shown", "computed",
    "digest", "receipt",
}  # fmt: skip
# Why no card number is masked there.
UNMASKED = {
    "code": "a code of an app: compared", "recovery": "a recovery code: compared by digest",
    "document": "a policy as JSON: refused by the ledger (`read_document`)", "reference": "refused by the ledger (`by_hand`)",
    "tag": "refused by the ledger (`tag`)",
}  # fmt: skip
# Typed fields of orders and parcels are exempt (S76); who asks is compared and not stored; a picture is made anew.
EXEMPT = {"order", "line", "tracking", "case", "customer", "photo"}
# Where a form is read by its generated names; each is tried below or has its text masked in its own module.
READ_BY_NAME = {"bulk.py", "counter.py", "forms.py", "gate.py", "goods_in.py", "operations.py"}


def everything() -> None:
    for module in pkgutil.walk_packages(console.__path__, "console."):
        if module.name not in ("console.gunicorn_conf", "console.photo_child"):
            importlib.import_module(module.name)


def below(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


everything()
FORMS = sorted(set(below(ConsoleForm)), key=lambda one: (one.__module__, one.__qualname__))
BODIES = sorted(set(below(Body)), key=lambda one: one.__qualname__)


def texts(app: Flask, form: type[ConsoleForm]) -> list[Field]:
    with app.test_request_context(method="POST"):
        return [field for field in form(formdata=None) if isinstance(field, StringField)]


def test_there_are_doors_to_try() -> None:
    assert len(FORMS) > 30
    assert len(BODIES) > 8
    assert set(UNMASKED) == NOT_MASKED


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.__module__}.{form.__qualname__}")
def test_no_text_of_a_form_lets_a_card_number_in(app: Flask, form: type[ConsoleForm]) -> None:
    fields = texts(app, form)
    for field in fields:
        if isinstance(field, HiddenField):
            assert field.name in OF_OURS, f"{field.name}: hidden text of a person? mask it, or say here what it is"
    typed = [
        one.name for one in fields if not isinstance(one, HiddenField | PasswordField) and one.name not in UNMASKED
    ]
    for said in SPELLED:
        with app.test_request_context(method="POST"):
            filled = form(formdata=MultiDict(dict.fromkeys(typed, said)))
            for name in typed:
                assert "card number ending 4242" in str(filled[name].data), f"{name} keeps {said}"


def test_without_the_masking_the_forms_would_keep_it(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    from console.case import NoteForm

    monkeypatch.setattr("console.forms.is_typed_text", lambda _field: False)
    with app.test_request_context(method="POST"):
        assert NoteForm(formdata=MultiDict({"note": CARD})).note.data == CARD


def strings(annotation: Any) -> list[Any]:
    """The text types in an annotation, with what validates them."""
    if annotation is str or (get_origin(annotation) is Annotated and get_args(annotation)[0] is str):
        return [annotation]
    return [found for part in get_args(annotation) for found in strings(part)]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__qualname__)
def test_no_text_of_a_body_lets_a_card_number_in(body: type[Body]) -> None:
    for name, field in body.model_fields.items():
        kinds = strings(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation)
        if name in EXEMPT:
            continue
        for kind in kinds:
            for said in (*SPELLED, f"a{CARD}"):
                try:
                    kept = TypeAdapter(kind).validate_python(said)
                except ValidationError:
                    continue
                assert "card number ending 4242" in kept, f"{body.__qualname__}.{name} keeps {said}"


def test_forms_are_read_by_their_fields_and_by_name_in_known_places_only() -> None:
    found = set()
    for path in Path(console.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in ("form", "values")
                and ast.unparse(node.value) == "request"
            ):
                found.add(path.name)
    assert found == READ_BY_NAME
