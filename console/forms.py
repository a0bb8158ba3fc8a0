"""The base of the console's forms: a CSRF token, named fields only, and the key that makes a second submit harmless."""

from typing import Any, Final, TypeVar

from flask import request, session
from flask_wtf import FlaskForm
from flask_wtf.form import _Auto
from wtforms import Field, HiddenField, PasswordField, StringField
from wtforms.validators import Regexp

from ledger.card_numbers import mask_card_numbers
from ledger.errors import BadInput
from ledger.ids import uuid7

KEPT = "kept"


def new_operation() -> str:
    """A fresh operation key for a page that offers an act; a second submit of the same page carries the same one."""
    return uuid7().hex


class TypedForm(FlaskForm):
    """Flask-WTF's form with its arguments typed: it reads the submitted form unless `formdata` is None."""

    def __init__(self, formdata: Any = _Auto, **options: Any) -> None:
        super().__init__(formdata=formdata, **options)  # type: ignore[no-untyped-call]


# Visible text fields that no card number is masked in: proofs of who it is, a policy's figures, and what the ledger refuses in its
# own words. A test holds this beside every form there is.
NOT_MASKED: Final = frozenset({"code", "recovery", "document", "reference", "tag"})


class ConsoleForm(TypedForm):
    """A form with `operation`. Fields that it does not name are refused, not ignored (S19), and card numbers are masked in every
    text that a person types before anything sees it (S76)."""

    operation = HiddenField(
        default=new_operation,
        validators=[Regexp(r"\A[A-Za-z0-9_-]{16,64}\Z", message="Reload the page, then send the form again.")],
    )

    def process(
        self, formdata: Any = None, obj: Any = None, data: Any = None, extra_filters: Any = None, **kwargs: Any
    ) -> None:
        masked = {field.name: [_masked] for field in self if is_typed_text(field)}
        super().process(formdata, obj, data, extra_filters=masked | (extra_filters or {}), **kwargs)

    def validate(self, extra_validators: Any = None) -> bool:
        """As WTForms does, and refuses a body that names a field this form does not have, or names one twice."""
        refuse_unknown({field.name for field in self} | {"csrf_token"}, many=_many(self))
        return bool(super().validate(extra_validators=extra_validators))

    def require(self) -> None:
        """For a form that is one button: raises BadInput with what is wrong instead of showing it again."""
        if not self.validate():
            field = next(field for field in self if field.errors)
            raise BadInput(field.name, str(next(iter(field.errors))))


Made = TypeVar("Made", bound=ConsoleForm)


def with_ids(form: Made, mark: str) -> Made:
    """The form with ids of its own, for a page that shows several with the same fields."""
    for field in form:
        field.id = f"{field.name}-{mark}"
    return form


def refuse_unknown(names: set[str], many: frozenset[str] = frozenset()) -> None:
    """Raises BadInput when the submitted form names anything but `names`, or one not in `many` more than once, and for a text
    with the character U+0000, which the database cannot keep."""
    for name, values in request.form.lists():
        if name not in names:
            raise BadInput(_short(name), "this form has no such field; reload the page, then send the form again")
        if len(values) > 1 and name not in many:
            raise BadInput(_short(name), "is given more than once; reload the page, then send the form again")
        if any("\0" in value for value in values):
            raise BadInput(_short(name), "holds a character that cannot be kept (U+0000): go back and write it without")


def kept_note() -> str:
    """What the person had typed when their session ended on this very page; it is handed out once."""
    kept = session.get(KEPT)
    if not kept or kept.get("path") != request.path:
        return ""
    del session[KEPT]
    return str(kept["note"])


def is_typed_text(field: Field) -> bool:
    """Whether a field is text that a person types and that may be kept."""
    typed = isinstance(field, StringField) and not isinstance(field, HiddenField | PasswordField)
    return typed and field.name not in NOT_MASKED


def _masked(text: str | None) -> str | None:
    return mask_card_numbers(text) if text else text


def _many(form: FlaskForm) -> frozenset[str]:
    return frozenset(field.name for field in form if _takes_many(field))


def _takes_many(field: Field) -> bool:
    return field.type in ("SelectMultipleField", "MultipleFileField", "FieldList")


def _short(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name[:40])
