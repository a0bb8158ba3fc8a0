-- Duplicate charges (ENTITLEMENT §10): a case that claims payments and no line. The worker reads the payments at the provider, the
-- finding stands beside its inputs, and a verified one owes what is left of exactly one payment, to that payment.

ALTER TABLE cases DROP CONSTRAINT cases_stage_check, ADD CONSTRAINT cases_stage_check CHECK (stage = ANY (
    '{waiting_goods,reading,ready,needs_person,nothing_due,approved,held,sending,unknown,pending,needs_review,paid,came_back,'
    'refused,rejected,exchanged}'
));

-- Which payments a case is about: all of the order until a finding says which one, then that one. A payment on a live row is
-- spoken for: by an open case, or for ever by a paid one.
CREATE TABLE charge_claims (
    merchant_id uuid NOT NULL,
    claim_id uuid NOT NULL,
    case_id uuid NOT NULL,
    order_id uuid NOT NULL,
    capture_id uuid NOT NULL,
    live boolean NOT NULL DEFAULT true,
    PRIMARY KEY (merchant_id, claim_id),
    UNIQUE (merchant_id, case_id, capture_id),
    FOREIGN KEY (merchant_id, case_id, order_id) REFERENCES cases (merchant_id, case_id, order_id),
    FOREIGN KEY (merchant_id, capture_id) REFERENCES captures (merchant_id, capture_id)
);
CREATE UNIQUE INDEX one_live_duplicate_case_per_capture ON charge_claims (merchant_id, capture_id) WHERE live;
CREATE INDEX charge_claims_of_order ON charge_claims (merchant_id, order_id);

-- A reading that somebody asked for; the worker does it, for it holds the key of the account.
CREATE TABLE charge_readings (
    merchant_id uuid NOT NULL,
    reading_id uuid NOT NULL,
    case_id uuid NOT NULL,
    asked_by text NOT NULL CHECK (asked_by ~ '^(staff:|token:|system$)'),
    asked_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    done_at timestamptz,
    PRIMARY KEY (merchant_id, reading_id),
    UNIQUE (merchant_id, reading_id, case_id),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id)
);
CREATE UNIQUE INDEX one_reading_at_a_time ON charge_readings (merchant_id, case_id) WHERE done_at IS NULL;
CREATE INDEX charge_readings_due ON charge_readings (merchant_id, due_at) WHERE done_at IS NULL;

CREATE TABLE charge_findings (
    merchant_id uuid NOT NULL,
    finding_id uuid NOT NULL,
    case_id uuid NOT NULL,
    n integer NOT NULL CHECK (n > 0),
    reading_id uuid NOT NULL,
    finding text NOT NULL CHECK (finding IN ('verified', 'none', 'investigate')),
    reason text NOT NULL CHECK (reason ~ '^[a-z_]{1,60}$'),
    capture_id uuid,
    amount_minor bigint CHECK (amount_minor > 0),
    inputs jsonb NOT NULL,
    record jsonb NOT NULL,
    digest bytea NOT NULL CHECK (length(digest) = 32),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, finding_id),
    UNIQUE (merchant_id, case_id, n),
    UNIQUE (merchant_id, reading_id),
    CHECK ((finding = 'verified') = (capture_id IS NOT NULL) AND num_nonnulls(capture_id, amount_minor) IN (0, 2)),
    FOREIGN KEY (merchant_id, reading_id, case_id) REFERENCES charge_readings (merchant_id, reading_id, case_id),
    FOREIGN KEY (merchant_id, capture_id) REFERENCES captures (merchant_id, capture_id)
);

-- As in 0003_store; what is owed for charges was found from charges alone, and they are stored as bound.
ALTER TABLE entitlements DROP CONSTRAINT inputs_are_stored_as_bound, ADD CONSTRAINT inputs_are_stored_as_bound CHECK ((
    CASE WHEN record->>'kind' = 'duplicate_charge' THEN num_nonnulls(allocation_digest, terms_digest, priors) = 0
        AND record->'bound'->>'charges' = 'sha256:' || encode(
            sha256(convert_to('charges@1', 'UTF8') || '\x00'::bytea || convert_to(evidence, 'UTF8')), 'hex')
    ELSE
        record->'bound'->>'evidence' = 'sha256:' || encode(
            sha256(convert_to('evidence@1', 'UTF8') || '\x00'::bytea || convert_to(evidence, 'UTF8')), 'hex')
        AND record->'bound'->>'priors' = 'sha256:' || encode(
            sha256(convert_to('priors@1', 'UTF8') || '\x00'::bytea || convert_to(priors, 'UTF8')), 'hex')
        AND record->'bound'->>'allocation' = 'sha256:' || encode(allocation_digest, 'hex')
        AND CASE WHEN terms_digest IS NULL THEN record->'bound'->>'terms' = 'none'
            ELSE right(record->'bound'->>'terms', 71) = 'sha256:' || encode(terms_digest, 'hex') END
    END
) IS TRUE) NOT VALID;

-- A claim is of a payment of the case's own order, by a case of that kind. One on which money went out stays.
CREATE FUNCTION keep_charge_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM 1 FROM captures cp JOIN cases c ON c.merchant_id = cp.merchant_id AND c.order_id = cp.order_id
        WHERE cp.merchant_id = NEW.merchant_id AND cp.capture_id = NEW.capture_id AND cp.order_id = NEW.order_id
            AND c.case_id = NEW.case_id AND c.kind = 'duplicate_charge';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a duplicate charge claims a payment of its own order' USING ERRCODE = 'check_violation';
        END IF;
    ELSIF (to_jsonb(NEW) - 'live') IS DISTINCT FROM (to_jsonb(OLD) - 'live') THEN
        RAISE EXCEPTION 'a claim never changes what it is about' USING ERRCODE = 'restrict_violation';
    ELSIF NOT NEW.live AND EXISTS (SELECT 1 FROM intents i WHERE i.merchant_id = NEW.merchant_id AND i.case_id = NEW.case_id
            AND i.capture_id = NEW.capture_id AND i.state IN ('approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review',
                'succeeded')) THEN
        RAISE EXCEPTION 'a payment that was paid back as a duplicate is not released' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER of_its_order BEFORE INSERT OR UPDATE ON charge_claims FOR EACH ROW EXECUTE FUNCTION keep_charge_claim();

-- Why the refund of a duplicate charge may not go now, '' when it may: asked before it is approved, before each send, and by the
-- triggers below. Sums are of the rows of now, so what happened since the finding stops it.
CREATE FUNCTION duplicate_obstacle(m uuid, i uuid) RETURNS text LANGUAGE plpgsql STABLE SET search_path = public, pg_temp AS $$
DECLARE
    x intents%ROWTYPE;
    found charge_findings%ROWTYPE;
    excess bigint;
BEGIN
    SELECT * INTO x FROM intents WHERE merchant_id = m AND intent_id = i;
    SELECT * INTO found FROM charge_findings WHERE merchant_id = m AND case_id = x.case_id ORDER BY n DESC LIMIT 1;
    IF found.capture_id IS DISTINCT FROM x.capture_id OR found.amount_minor IS DISTINCT FROM x.amount_minor
            OR x.order_minor <> x.amount_minor OR x.act <> 'refund' THEN
        RETURN 'not_as_found';
    ELSIF NOT EXISTS (SELECT 1 FROM charge_claims WHERE merchant_id = m AND case_id = x.case_id AND capture_id = x.capture_id AND live) THEN
        RETURN 'not_claimed';
    ELSIF EXISTS (SELECT 1 FROM charge_readings WHERE merchant_id = m AND case_id = x.case_id AND done_at IS NULL) THEN
        RETURN 'read_again';
    ELSIF EXISTS (SELECT 1 FROM captures cp JOIN disputes d ON d.merchant_id = cp.merchant_id AND d.charge_ref = cp.charge_ref
            AND d.provider_account_id = cp.provider_account_id
            WHERE cp.merchant_id = m AND cp.order_id = x.order_id AND d.status NOT IN ('won', 'prevented', 'warning_closed')) THEN
        RETURN 'disputed';
    ELSIF EXISTS (SELECT 1 FROM captures cp JOIN external_refunds e ON e.merchant_id = cp.merchant_id AND e.charge_ref = cp.charge_ref
            AND e.provider_account_id = cp.provider_account_id
            WHERE cp.merchant_id = m AND cp.order_id = x.order_id AND e.status NOT IN ('failed', 'canceled')
                AND (e.allocated_minor < e.amount_minor OR e.placed_minor < e.amount_minor)) THEN
        RETURN 'refunded_outside';
    END IF;
    -- What is left on all payments, with what this refund has set aside itself, less what the order still owes the shop.
    SELECT coalesce(sum(cp.available_minor), 0) + CASE WHEN x.state IN ('approved', 'held', 'submitting', 'unknown')
            THEN x.amount_minor ELSE 0 END
        - (SELECT o.total_minor FROM orders o WHERE o.merchant_id = m AND o.order_id = x.order_id)
        + coalesce((SELECT sum(y.order_minor) FROM intents y JOIN cases c ON c.merchant_id = y.merchant_id AND c.case_id = y.case_id
            WHERE y.merchant_id = m AND y.order_id = x.order_id AND c.kind <> 'duplicate_charge'
                AND y.state NOT IN ('proposed', 'withdrawn', 'failed', 'reversed')), 0)
        + coalesce((SELECT sum(a.order_minor) FROM external_allocations a JOIN cases c ON c.merchant_id = a.merchant_id
            AND c.case_id = a.case_id WHERE a.merchant_id = m AND c.order_id = x.order_id), 0)
    INTO excess FROM captures cp WHERE cp.merchant_id = m AND cp.order_id = x.order_id AND cp.currency = x.currency;
    RETURN CASE WHEN excess < x.amount_minor THEN 'no_excess' ELSE '' END;
END $$;

-- The last guards: what is proposed for such a case is what was found, and it leaves only while the order's payments still say so.
CREATE FUNCTION propose_as_found() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE why text;
BEGIN
    PERFORM 1 FROM cases WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id AND kind = 'duplicate_charge';
    IF FOUND THEN
        why := duplicate_obstacle(NEW.merchant_id, NEW.intent_id);
        IF why <> '' THEN
            RAISE EXCEPTION 'a duplicate charge is paid back as it was found: %', why USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER duplicate_as_found AFTER INSERT ON intents FOR EACH ROW EXECUTE FUNCTION propose_as_found();

CREATE FUNCTION send_as_found() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE why text;
BEGIN
    PERFORM 1 FROM cases WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id AND kind = 'duplicate_charge';
    IF FOUND THEN
        why := duplicate_obstacle(NEW.merchant_id, NEW.intent_id);
        IF why <> '' THEN
            RAISE EXCEPTION 'a duplicate charge is paid back while it is one: %', why
                USING ERRCODE = 'check_violation', CONSTRAINT = 'duplicate_still_stands';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER duplicate_still_stands BEFORE INSERT ON events FOR EACH ROW
    WHEN (NEW.to_state = 'submitting') EXECUTE FUNCTION send_as_found();

CREATE FUNCTION finish_reading() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.done_at IS NOT NULL OR (to_jsonb(NEW) - ARRAY['due_at', 'attempts', 'done_at'])
            IS DISTINCT FROM (to_jsonb(OLD) - ARRAY['due_at', 'attempts', 'done_at']) THEN
        RAISE EXCEPTION 'a reading is done once' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER done_once BEFORE UPDATE ON charge_readings FOR EACH ROW EXECUTE FUNCTION finish_reading();

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['charge_claims', 'charge_readings'] LOOP
        EXECUTE format('CREATE TRIGGER never_deleted BEFORE DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
    CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON charge_findings FOR EACH ROW EXECUTE FUNCTION refuse_change();
    CREATE TRIGGER never_emptied BEFORE TRUNCATE ON charge_findings FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
END $$;

GRANT SELECT ON charge_claims, charge_readings, charge_findings TO onceback_console, onceback_worker;
GRANT INSERT (merchant_id, claim_id, case_id, order_id, capture_id) ON charge_claims TO onceback_console;
GRANT UPDATE (live) ON charge_claims TO onceback_console, onceback_worker;
GRANT INSERT (merchant_id, reading_id, case_id, asked_by) ON charge_readings TO onceback_console, onceback_worker;
GRANT UPDATE (due_at, attempts, done_at) ON charge_readings TO onceback_worker;
GRANT INSERT ON charge_findings TO onceback_worker;
GRANT EXECUTE ON FUNCTION duplicate_obstacle(uuid, uuid) TO onceback_console, onceback_worker;

-- Evidence: what was found beside a grade, and parcels on their way back.
ALTER TABLE evidence
    ADD COLUMN serial text CHECK (length(serial) BETWEEN 1 AND 80),
    ADD COLUMN reason_found text CHECK (reason_found IN ('changed_mind', 'size', 'faulty', 'damaged', 'wrong_item', 'other')),
    ADD COLUMN assessed_bps integer CHECK (assessed_bps BETWEEN 0 AND 10000);
ALTER TABLE evidence ADD CONSTRAINT found_by_looking CHECK (
    (kind = 'inspected' OR num_nonnulls(serial, reason_found, assessed_bps) = 0) AND (serial IS NULL OR upper(units) - lower(units) = 1)
);

-- That a parcel is on its way: the customer's receipt, or the carrier's own scan.
CREATE TABLE parcels (
    merchant_id uuid NOT NULL,
    parcel_id uuid NOT NULL,
    case_id uuid NOT NULL,
    tracking text NOT NULL CHECK (length(tracking) BETWEEN 1 AND 80),
    sent_at timestamptz NOT NULL,
    proof text NOT NULL CHECK (proof IN ('customer', 'carrier')),
    our_label boolean NOT NULL,
    channel text NOT NULL,
    actor text NOT NULL CHECK (actor ~ '^(staff|token):'),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, parcel_id),
    UNIQUE (merchant_id, case_id, tracking, proof),
    CHECK (sent_at <= at + interval '1 day'),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON parcels FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON parcels FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT ON parcels TO onceback_console, onceback_worker;
GRANT INSERT ON parcels TO onceback_console;

-- How many contradictions the newest entitlement of a case found: kept in step with it, as the other columns of a queue row are.
ALTER TABLE cases ADD COLUMN contradictions smallint NOT NULL DEFAULT 0 CHECK (contradictions >= 0);
CREATE INDEX cases_contradicting ON cases (merchant_id, due_at, case_id) WHERE closed_at IS NULL AND contradictions > 0;
GRANT UPDATE (contradictions) ON cases TO onceback_console, onceback_worker;
-- "This serial was seen before" asks for one serial at a time, the latest first.
CREATE INDEX evidence_by_serial ON evidence (merchant_id, serial, at) WHERE serial IS NOT NULL;
