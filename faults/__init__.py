"""Money movement under every fault: harnesses that unplug things and count the refunds afterwards. No part of production.

Read in this order:

    place        one scratch database with its provider, its web process and its worker; time that can be moved
    children     work done in a process of its own, which may be killed
    points       every commit and every provider call of a process, found by instrumentation, and SIGKILL at one of them
    books        the last word: our ledger beside the provider's, refund by refund and sum by sum
    journals     what has to be so in our rows alone
    snapshot     the rows of a database kept aside and put back
    path         what a path is
    paths        the ways a refund can go, one entry each: the core here; paths_forms the forms of payment, paths_outside what
                 others do at the provider, paths_people what only people lead on, paths_recovery a database that went back,
                 paths_automatic what a policy approves by itself, paths_desks what begins or ends at a desk or in a channel
    entries      every way into the product that commits, with the path it is on or why it has none
    killmatrix   `make killmatrix`: each point of each path under each provider fault; results keeps what came of each,
                 report writes it as a page
    guards       what a run can be without; rogues: the second writer that each keeps out
    lives        what happens to N orders, worked out from a seed
    people       who does it, in processes that may be killed
    chaos        `make chaos`: all of them at once, with whatever can go wrong

The ordinary commands of the ledger, the ordinary jobs and the ordinary pages are used. What only an administrator could do
(time passing, a guard dropped) is done to the scratch database, never by a switch in the product.
"""
