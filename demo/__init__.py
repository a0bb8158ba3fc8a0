"""The demo: everything of Onceback on one machine, with nothing else set up. Never imported by production code.

Read `venv` (the packages), `postgres` and `server_account` (the database server), `roles` (its roles and database) and
`browser` (the Chromium of the tests), in this order.
"""
