"""What the worker process does, and the only calls that leave for the provider.

Read in this order:

    worker          what every job is given: engine, provider, proof of life, verifier, threads
    each_merchant   the loop over merchants, and what is noted where the database is busy or refuses
    asking          looks that fail: none holds up the others, and an account that does not answer is let be for a while
    liveness        the advisory lock that says this worker lives
    switch          the pause outside the database
    submitter       claim and commit, send, record and commit
    recorder        the answers of its calls, several to a commit
    reconciler      look at the provider for what is not known; prove absence or adopt
    daily_cap       send on its way what the cap held
    by_hand         settle what people paid back by hand
    holds           payments that were authorised and not taken: read again
    inbox           webhooks are hints: read the payment, or the dispute, again
    outside         what others do at the provider: the account's lists of refunds and disputes (account_lists), read again
    dispute_freshness  nothing is sent on an account whose disputes were not read a moment ago
    books           compare the books with the provider, page by page; stripe_lists reads all lists of an account
    mailer          mail that waits, with its texts (mail_texts); post is the only module that speaks to a mail server
    self_check      the ledger against itself, once a night
    schedule        the one table of periodic work; commands starts it
    stripe_gateway  the only module that calls the provider; its parts are stripe_session, stripe_addresses, stripe_amounts,
                    stripe_answers, stripe_creates, stripe_cancels, stripe_lists
    logs            what may be written to the log, and nothing else

Each job is `run_once(worker)`, returns counts, and is right when two workers run it at once. No job calls the provider
inside a transaction (P12), and nothing here decides what an answer leads to: that is `ledger`.
"""
