-- Runs that compare the books with the provider, and the discrepancies they name.

-- One comparison of one account over [from_at, to_at). The console asks for it; a worker does it.
CREATE TABLE reconciliation_runs (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    run_id uuid NOT NULL,
    provider_account_id uuid NOT NULL,
    from_at timestamptz NOT NULL,
    to_at timestamptz NOT NULL,
    -- The business day whose night it belongs to; none for one that was asked for.
    night date,
    asked_by text NOT NULL CHECK (asked_by ~ '^(system|command|staff:[0-9a-f-]{36})$'),
    asked_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    worker_id bigint,
    lease_until timestamptz,
    -- Why the last page could not be read, "" while it goes on.
    waits_for text NOT NULL DEFAULT '' CHECK (length(waits_for) <= 80),
    PRIMARY KEY (merchant_id, run_id),
    UNIQUE (merchant_id, provider_account_id, night),
    CHECK (from_at < to_at),
    CHECK ((night IS NOT NULL) = (asked_by = 'system')),
    FOREIGN KEY (merchant_id, provider_account_id) REFERENCES provider_accounts (merchant_id, provider_account_id)
);
CREATE INDEX reconciliation_runs_open ON reconciliation_runs (merchant_id, asked_at) WHERE finished_at IS NULL;

-- How far each side of a run has been read. A page, what it led to and the cursor after it commit together.
CREATE TABLE reconciliation_sides (
    merchant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    side text NOT NULL CHECK (side IN (
        'refunds', 'refund', 'payment_refund', 'refund_failure', 'payment_failure_refund', 'payment_reversal', 'ours'
    )),
    position smallint NOT NULL,
    cursor text NOT NULL DEFAULT '' CHECK (length(cursor) <= 100),
    -- The moment in the period that the cursor has come to, for telling how far the side is.
    reached_at timestamptz,
    pages integer NOT NULL DEFAULT 0,
    rows_read bigint NOT NULL DEFAULT 0,
    done_at timestamptz,
    PRIMARY KEY (merchant_id, run_id, side),
    UNIQUE (merchant_id, run_id, position),
    FOREIGN KEY (merchant_id, run_id) REFERENCES reconciliation_runs (merchant_id, run_id)
);

-- Both sides' sums, in minor units. `refunds`: what each side shows for the refunds made there in the period.
-- `movements`: what moved in the period, each side by its own date.
CREATE TABLE reconciliation_totals (
    merchant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    part text NOT NULL CHECK (part IN ('refunds', 'movements')),
    currency text NOT NULL,
    ours_minor bigint NOT NULL DEFAULT 0,
    theirs_minor bigint NOT NULL DEFAULT 0,
    ours_count bigint NOT NULL DEFAULT 0,
    theirs_count bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (merchant_id, run_id, part, currency),
    FOREIGN KEY (merchant_id, run_id) REFERENCES reconciliation_runs (merchant_id, run_id)
);

-- What the provider showed last. The evidence of a discrepancy is copied from here and stays.
CREATE TABLE provider_refunds (
    merchant_id uuid NOT NULL,
    provider_account_id uuid NOT NULL,
    refund_ref text NOT NULL CHECK (length(refund_ref) BETWEEN 1 AND 80),
    amount_minor bigint NOT NULL,
    currency text NOT NULL CHECK (length(currency) <= 3),
    status text NOT NULL CHECK (length(status) <= 40),
    payment_intent_ref text NOT NULL CHECK (length(payment_intent_ref) <= 100),
    charge_ref text NOT NULL CHECK (length(charge_ref) <= 100),
    intent_ref text NOT NULL CHECK (length(intent_ref) <= 80),
    failure_reason text NOT NULL CHECK (length(failure_reason) <= 80),
    created_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, provider_account_id, refund_ref),
    FOREIGN KEY (merchant_id, provider_account_id) REFERENCES provider_accounts (merchant_id, provider_account_id)
);
-- `amount_minor` is what went back to customers: a failure, which brings it back, is negative. One the provider converted is
-- in the currency of its balance, and is compared by its refund.
CREATE TABLE provider_movements (
    merchant_id uuid NOT NULL,
    provider_account_id uuid NOT NULL,
    movement_ref text NOT NULL CHECK (length(movement_ref) BETWEEN 1 AND 80),
    kind text NOT NULL CHECK (length(kind) <= 40),
    source_ref text NOT NULL CHECK (length(source_ref) <= 100),
    amount_minor bigint NOT NULL,
    currency text NOT NULL CHECK (length(currency) <= 3),
    converted boolean NOT NULL,
    created_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, provider_account_id, movement_ref),
    FOREIGN KEY (merchant_id, provider_account_id) REFERENCES provider_accounts (merchant_id, provider_account_id)
);
CREATE INDEX provider_movements_of_source ON provider_movements (merchant_id, provider_account_id, source_ref);

-- What does not agree, with both sides as they were found. Never edited: what happens to it is added beside it.
CREATE SEQUENCE discrepancy_number AS bigint START 101;
CREATE TABLE discrepancies (
    merchant_id uuid NOT NULL,
    discrepancy_id uuid NOT NULL,
    number bigint NOT NULL DEFAULT nextval('discrepancy_number'),
    provider_account_id uuid NOT NULL,
    run_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('missing_there', 'missing_here', 'amount', 'currency', 'state', 'late', 'duplicate')),
    refund_ref text NOT NULL CHECK (length(refund_ref) BETWEEN 1 AND 80),
    intent_id uuid,
    -- 1, and one more each time it is found again after it was resolved.
    occurrence integer NOT NULL CHECK (occurrence > 0),
    follows uuid,
    ours jsonb NOT NULL,
    theirs jsonb NOT NULL,
    owner text NOT NULL DEFAULT 'finance' CHECK (owner IN ('finance')),
    -- When it happened, by the provider's date where it has one: a run over this moment finds it again, or it is gone.
    dated_at timestamptz NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, discrepancy_id),
    UNIQUE (merchant_id, number),
    CONSTRAINT one_row_for_one_finding UNIQUE (merchant_id, provider_account_id, refund_ref, kind, occurrence),
    CHECK ((occurrence = 1) = (follows IS NULL)),
    FOREIGN KEY (merchant_id, run_id) REFERENCES reconciliation_runs (merchant_id, run_id),
    FOREIGN KEY (merchant_id, provider_account_id) REFERENCES provider_accounts (merchant_id, provider_account_id),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES intents (merchant_id, intent_id),
    FOREIGN KEY (merchant_id, follows) REFERENCES discrepancies (merchant_id, discrepancy_id)
);
CREATE INDEX discrepancies_by_time ON discrepancies (merchant_id, found_at DESC, discrepancy_id DESC);

-- What a run found: of each sum, how much of the difference (theirs less ours) this discrepancy is.
CREATE TABLE reconciliation_findings (
    merchant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    discrepancy_id uuid NOT NULL,
    part text NOT NULL CHECK (part IN ('refunds', 'movements')),
    -- The refund, or the movement, that makes the difference: what is read twice counts once.
    source_ref text NOT NULL CHECK (length(source_ref) BETWEEN 1 AND 120),
    currency text NOT NULL,
    difference_minor bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, run_id, part, source_ref, currency),
    FOREIGN KEY (merchant_id, run_id) REFERENCES reconciliation_runs (merchant_id, run_id),
    FOREIGN KEY (merchant_id, discrepancy_id) REFERENCES discrepancies (merchant_id, discrepancy_id)
);
CREATE INDEX reconciliation_findings_of_discrepancy ON reconciliation_findings (merchant_id, discrepancy_id);

-- Taken, noted, resolved: each a row more. A discrepancy is open until one row resolves it, and then for good.
CREATE TABLE discrepancy_acts (
    merchant_id uuid NOT NULL,
    act_id uuid NOT NULL,
    discrepancy_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('taken', 'noted', 'resolved')),
    code text CHECK (code IN (
        'timing', 'adopted', 'external', 'provider_error', 'our_error', 'written_off', 'duplicate_recovered', 'healed', 'gone'
    )),
    note text NOT NULL DEFAULT '' CHECK (length(note) <= 2000),
    actor text NOT NULL CHECK (actor ~ '^(system|staff:[0-9a-f-]{36})$'),
    staff_id uuid,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, act_id),
    CHECK ((kind = 'resolved') = (code IS NOT NULL)),
    CHECK ((actor = 'system') = (staff_id IS NULL) AND (staff_id IS NULL OR actor = 'staff:' || staff_id::text)),
    CONSTRAINT people_say_why CHECK (length(note) > 0 OR kind = 'taken' OR code IN ('timing', 'adopted', 'external')),
    FOREIGN KEY (merchant_id, discrepancy_id) REFERENCES discrepancies (merchant_id, discrepancy_id),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE INDEX discrepancy_acts_of_discrepancy ON discrepancy_acts (merchant_id, discrepancy_id, at);
CREATE UNIQUE INDEX discrepancy_resolved_once ON discrepancy_acts (merchant_id, discrepancy_id) WHERE kind = 'resolved';

-- One row a night and merchant: that its ledger was checked against itself, and how many faults that found.
CREATE TABLE self_checks (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    night date NOT NULL,
    checked_at timestamptz NOT NULL DEFAULT now(),
    faults integer NOT NULL CHECK (faults >= 0),
    PRIMARY KEY (merchant_id, night)
);

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['discrepancies', 'reconciliation_findings', 'discrepancy_acts', 'self_checks'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

-- Nobody adds to what is resolved; what is found again is a new row that follows it.
CREATE FUNCTION act_on_open_discrepancy() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM discrepancy_acts
    WHERE merchant_id = NEW.merchant_id AND discrepancy_id = NEW.discrepancy_id AND kind = 'resolved';
    IF FOUND THEN
        RAISE EXCEPTION 'this discrepancy is resolved' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER of_open_discrepancies BEFORE INSERT ON discrepancy_acts
    FOR EACH ROW WHEN (NEW.kind <> 'resolved') EXECUTE FUNCTION act_on_open_discrepancy();

-- People resolve with a person's words; a worker only says what it saw: healed on the normal way, gone by itself, or timing.
CREATE POLICY people_act ON discrepancy_acts AS RESTRICTIVE FOR INSERT TO onceback_console
    WITH CHECK (actor <> 'system' AND (code IS NULL OR code NOT IN ('healed', 'gone')));
CREATE POLICY worker_acts ON discrepancy_acts AS RESTRICTIVE FOR INSERT TO onceback_worker
    WITH CHECK (actor = 'system' AND kind = 'resolved' AND code IN ('healed', 'gone', 'timing'));
CREATE POLICY console_asks ON reconciliation_runs AS RESTRICTIVE FOR INSERT TO onceback_console
    WITH CHECK (asked_by LIKE 'staff:%');

GRANT SELECT ON reconciliation_runs, reconciliation_sides, reconciliation_totals, reconciliation_findings, provider_refunds,
    provider_movements, discrepancies, discrepancy_acts, self_checks TO onceback_console, onceback_worker;
GRANT INSERT (merchant_id, run_id, provider_account_id, from_at, to_at, asked_by) ON reconciliation_runs TO onceback_console;
GRANT INSERT ON discrepancy_acts TO onceback_console, onceback_worker;
GRANT INSERT ON reconciliation_runs, reconciliation_sides, reconciliation_totals, reconciliation_findings, provider_refunds,
    provider_movements, discrepancies, self_checks TO onceback_worker;
GRANT UPDATE (started_at, finished_at, worker_id, lease_until, waits_for) ON reconciliation_runs TO onceback_worker;
GRANT UPDATE (cursor, reached_at, pages, rows_read, done_at) ON reconciliation_sides TO onceback_worker;
GRANT UPDATE (ours_minor, theirs_minor, ours_count, theirs_count) ON reconciliation_totals TO onceback_worker;
GRANT UPDATE (amount_minor, currency, status, failure_reason, intent_ref, created_at, seen_at) ON provider_refunds TO onceback_worker;
GRANT UPDATE (kind, amount_minor, currency, converted, source_ref, created_at, seen_at) ON provider_movements TO onceback_worker;
GRANT USAGE ON SEQUENCE discrepancy_number TO onceback_worker;
-- The self-check adds up what people approved, too.
GRANT SELECT ON reviewer_windows TO onceback_worker;
