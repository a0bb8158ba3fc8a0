"""The control of the watch: what a page says against itself fails a test."""

import pytest

from e2e.office import Office
from e2e.pages import QueuePage
from e2e.shop import Shop

_STYLE = (
    "() => { const style = document.createElement('style'); style.textContent = 'p {}'; document.head.append(style); }"
)


@pytest.mark.parametrize(
    ("does", "sign"),
    [
        (_STYLE, "Content Security Policy"),
        ("() => { setTimeout(() => { throw new Error('broken'); }, 0); }", "exception: broken"),
        ("() => console.error('oops')", "oops"),
        ("() => fetch('/nowhere').then(() => null)", "404"),
    ],
    ids=["policy", "exception", "console", "missing file"],
)
def test_what_a_page_says_against_itself_is_heard(office: Office, shop: Shop, does: str, sign: str) -> None:
    page = office.at("priya")
    QueuePage(page, shop).open()
    page.evaluate(does)
    page.reload()
    heard, office.said = office.said, []
    assert [text for text in heard if sign in text], heard


def test_a_status_that_was_expected_is_no_fault_and_another_one_is(office: Office) -> None:
    office.expects(409)
    office.said = ["Failed to load resource: the server responded with a status of 409 (CONFLICT) at /a"]
    office.close(keep_traces=False)
    office.said = ["Failed to load resource: the server responded with a status of 500 (ERROR) at /a"]
    with pytest.raises(AssertionError, match="500"):
        office.close(keep_traces=False)
    office.said = []
