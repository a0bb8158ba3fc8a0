"""A local server that speaks Stripe's refund interface, for the demo, the tests and QA.

It is a process of its own and no part of production: it imports nothing of ledger, console or jobs. Its data are
invented, its keys are test keys, and it listens on the loopback address.

Read the files in this order:

    wire         HTTP/1.1 on sockets: keep-alive, and the ways a reply can go wrong
    store        one SQLite file in WAL mode, the clock, the settings
    schema       the tables
    forms        Stripe's form encoding and the parameters of each call
    errors       Stripe's error bodies, in its words
    faults       what is queued to go wrong, and for whom
    idempotency  first result kept, replayed, refused, pruned
    locks        the payment a call holds, the rate of an account
    calls        one request under /v1: who calls, with which key, at what time
    operations   the table of calls; provider runs one of them, in the order Stripe does; replies spoils it when asked
    accounts     whose key it is
    payments charges refunds disputes balance events
                 the objects and what may happen to them; listing, expand and render show them as Stripe does
    bulk         a month of payments at once
    webhooks     signed delivery, at least once
    journal      every call received
    money        what is held per payment: the sentence a test ends with
    control      /_sandbox/…: faults, clock, listings, with wishes (what is asked) and states (what happens without us);
                 page is the same for people
    client       the Python face of /_sandbox, for tests, demo and replay

Amounts are whole minor units beside a currency; times are whole Unix seconds of the sandbox's own clock.
Rules marked with a section number come from the project's notes on Stripe (design/STRIPE.md).
"""
