"""The tables of the sandbox. Money is whole minor units; times are Unix seconds of the sandbox's clock."""

TABLES = """
create table if not exists settings (name text primary key, value text not null) without rowid;

create table if not exists accounts (
    id text primary key, key_hint text not null default '', platform text, created integer not null) without rowid;

create table if not exists payments (
    seq integer primary key, account text not null, id text not null unique, charge text unique,
    created integer not null, amount integer not null, currency text not null,
    capture_method text not null, status text not null,
    payment_method text,
    brand text not null, last4 text not null, exp_month integer not null, exp_year integer not null,
    amount_captured integer not null default 0, amount_refunded integer not null default 0,
    disputed integer not null default 0, balance_transaction text,
    customer text, description text, receipt_email text, metadata text not null default '{}',
    charge_metadata text, charge_created integer, charge_failure text,
    canceled_at integer, cancellation_reason text, refund_behaviour text,
    transfer_destination text, application_fee integer, transfer_reversed integer not null default 0,
    fee_refunded integer not null default 0,
    check (amount_captured between 0 and amount), check (amount_refunded between 0 and amount_captured));
create index if not exists payments_held on payments (charge_created) where status = 'requires_capture';
create index if not exists payments_newest on payments (account, created, seq);

create table if not exists refunds (
    seq integer primary key, account text not null, id text not null unique,
    payment_intent text not null, charge text not null,
    amount integer not null check (amount > 0), currency text not null, created integer not null,
    status text not null, reason text, pending_reason text, failure_reason text, instructions_email text,
    metadata text not null default '{}', balance_transaction text, failure_balance_transaction text,
    payment_method text, customer text,
    listed_at integer not null, origin text not null, idempotency_key text, request_id text,
    next_status text, next_reason text, next_at integer);
create index if not exists refunds_newest on refunds (account, created, seq);
create index if not exists refunds_of_charge on refunds (charge);
create index if not exists refunds_of_payment on refunds (payment_intent);
create index if not exists refunds_due on refunds (next_at) where next_at is not null;

create table if not exists disputes (
    seq integer primary key, account text not null, id text not null unique,
    payment_intent text not null, charge text not null,
    amount integer not null, currency text not null, created integer not null,
    reason text not null, status text not null, inquiry integer not null, metadata text not null default '{}');
create index if not exists disputes_of_charge on disputes (charge);

create table if not exists balance_transactions (
    seq integer primary key, account text not null, id text not null unique,
    amount integer not null, fee integer not null, currency text not null, created integer not null,
    type text not null, source text not null);
create index if not exists balance_of_source on balance_transactions (source);

create table if not exists idempotency (
    account text not null, key text not null, fingerprint text not null,
    created integer not null, status integer not null, body blob not null, request_id text not null,
    primary key (account, key)) without rowid;

create table if not exists events (
    seq integer primary key, account text not null, id text not null unique, created integer not null,
    type text not null, object text not null, previous text, request_id text, idempotency_key text);
create index if not exists events_newest on events (account, created, seq);

create table if not exists endpoints (
    id text primary key, account text not null, url text not null, secrets text not null,
    connect integer not null default 0) without rowid;

create table if not exists deliveries (
    seq integer primary key, event text not null, endpoint text not null,
    due real not null, attempts integer not null default 0, state text not null default 'waiting',
    answer text);
create index if not exists deliveries_waiting on deliveries (due) where state = 'waiting';

create table if not exists faults (
    seq integer primary key, kind text not null, account text, method text, path text,
    payment_intent text, charge text, skip integer not null default 0, remaining integer not null,
    options text not null default '{}');

create table if not exists requests (
    seq integer primary key, account text, method text not null, path text not null, query text not null,
    idempotency_key text, digest text not null, body text not null, request_id text not null,
    arrived real not null, took_ms integer, status integer, outcome text not null,
    trace text);
"""

NAMES = (
    "payments",
    "refunds",
    "disputes",
    "balance_transactions",
    "idempotency",
    "events",
    "deliveries",
    "faults",
    "requests",
)
