"""Pages for the people of a merchant, and the doors for channels and the provider.

Read in this order: `gate` (what happens before any view), `access` (who may do what, and the one transaction a handler
opens), `sessions`, then a desk. A handler has four steps: load what it is about, check the form, one ledger call, then a
redirect or a page. A desk is a module with `blueprint`, named like the desk; its root view is `index`. Every view states a
permission or why it is public: the app does not start otherwise.

A new desk is one line in DESKS. The merchant is the first part of every desk's address and is not a parameter of the view.
"""

from typing import Final

# Modules of this package that hold a `blueprint`, in the order of a working day.
DESKS: Final = (
    "sign_in",
    "second_factor",
    "enrolment",
    "home",
    "queue",
    "bulk",
    "case",
    "teamwork",
    "confirm",
    "confirm_together",
    "decision",
    "unknown",
    "counter",
    "kinds",
    "exchange",
    "warranty",
    "override",
    "charges",
    "goods_in",
    "receipts",
    "parcels",
    "facts",
    "photos",
    "by_hand",
    "outside",
    "in_question",
    "disputes",
    "caps",
    "brakes",
    "policies",
    "drafting",
    "reconciliation",
    "trail",
    "exports",
    "measures",
    "people",
    "roles",
    "invitations",
    "come_in",
    "resets",
    "erasures",
    "settings_page",
    "sessions_page",
    "factors",
    "passkeys",
)
