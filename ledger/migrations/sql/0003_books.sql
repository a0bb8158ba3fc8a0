-- The books beside the provider: disputes compared too, what could not be read named, payments that differ blocked; and what a
-- recovery owes: refunds that were lost count in the cap of their day, and people close what only they can answer.

-- A run reads two sides more: the disputes that the provider lists, and our own that it did not show.
ALTER TABLE reconciliation_sides DROP CONSTRAINT reconciliation_sides_side_check;
ALTER TABLE reconciliation_sides ADD CONSTRAINT reconciliation_sides_side_check CHECK (side IN (
    'refunds', 'refund', 'payment_refund', 'refund_failure', 'payment_failure_refund', 'payment_reversal', 'ours', 'disputes',
    'our_disputes'
));
ALTER TABLE reconciliation_totals DROP CONSTRAINT reconciliation_totals_part_check;
ALTER TABLE reconciliation_totals ADD CONSTRAINT reconciliation_totals_part_check CHECK (part IN ('refunds', 'movements', 'disputes'));
ALTER TABLE reconciliation_findings DROP CONSTRAINT reconciliation_findings_part_check;
ALTER TABLE reconciliation_findings ADD CONSTRAINT reconciliation_findings_part_check
    CHECK (part IN ('refunds', 'movements', 'disputes'));

-- What a discrepancy is about. A payment that differs is found when it is read again after a recovery, by no run.
ALTER TABLE discrepancies DROP CONSTRAINT discrepancies_kind_check;
ALTER TABLE discrepancies ADD CONSTRAINT discrepancies_kind_check CHECK (kind IN (
    'missing_there', 'missing_here', 'amount', 'currency', 'state', 'late', 'duplicate', 'unreadable'
));
ALTER TABLE discrepancies ADD COLUMN about text NOT NULL DEFAULT 'refund' CHECK (about IN ('refund', 'dispute', 'payment'));
ALTER TABLE discrepancies ALTER COLUMN run_id DROP NOT NULL;
ALTER TABLE discrepancies ADD CONSTRAINT found_by_a_run CHECK ((about = 'payment') = (run_id IS NULL));

-- What the provider showed last of a dispute. `seen_at` says whether it was shown since a run began.
CREATE TABLE provider_disputes (
    merchant_id uuid NOT NULL,
    provider_account_id uuid NOT NULL,
    dispute_ref text NOT NULL CHECK (length(dispute_ref) BETWEEN 1 AND 80),
    amount_minor bigint NOT NULL,
    currency text NOT NULL CHECK (length(currency) <= 3),
    status text NOT NULL CHECK (length(status) <= 40),
    charge_ref text NOT NULL CHECK (length(charge_ref) <= 100),
    payment_intent_ref text NOT NULL CHECK (length(payment_intent_ref) <= 100),
    created_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, provider_account_id, dispute_ref),
    FOREIGN KEY (merchant_id, provider_account_id) REFERENCES provider_accounts (merchant_id, provider_account_id)
);
GRANT SELECT ON provider_disputes TO onceback_console, onceback_worker;
GRANT INSERT ON provider_disputes TO onceback_worker;
GRANT UPDATE (amount_minor, currency, status, created_at, seen_at) ON provider_disputes TO onceback_worker;

-- P11. A refund that a restored backup had lost counts in the cap of the business day on which the provider made it. The raise that
-- once carried it may be lost as well: a day takes as much of it as its limit has left (`counted_minor`), and is then full.
CREATE TABLE recovered_cap_entries (
    merchant_id uuid NOT NULL,
    refund_ref text NOT NULL,
    step text NOT NULL CHECK (step IN ('reserve', 'return')),
    currency text NOT NULL,
    business_day date NOT NULL,
    amount_minor bigint NOT NULL CHECK ((step = 'reserve') = (amount_minor > 0) AND amount_minor <> 0),
    counted_minor bigint NOT NULL DEFAULT 0,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, refund_ref, step),
    FOREIGN KEY (merchant_id, refund_ref) REFERENCES external_refunds (merchant_id, refund_ref)
);
CREATE INDEX recovered_cap_entries_of_day ON recovered_cap_entries (merchant_id, currency, business_day);

CREATE FUNCTION apply_recovered_cap_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE counted bigint;
BEGIN
    PERFORM 1 FROM external_refunds e JOIN merchants m ON m.id = e.merchant_id
    WHERE e.merchant_id = NEW.merchant_id AND e.refund_ref = NEW.refund_ref AND e.kind = 'recovered' AND e.currency = NEW.currency
        AND e.amount_minor = abs(NEW.amount_minor) AND (e.created_at AT TIME ZONE m.zone)::date = NEW.business_day
        AND (e.status IN ('failed', 'canceled')) = (NEW.step = 'return');
    IF NOT FOUND THEN
        RAISE EXCEPTION 'it counts exactly what a recovery found, on its day, and is returned when that came to nothing'
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.step = 'return' THEN
        SELECT -counted_minor INTO counted FROM recovered_cap_entries
        WHERE merchant_id = NEW.merchant_id AND refund_ref = NEW.refund_ref AND step = 'reserve';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a return gives back exactly what was counted' USING ERRCODE = 'check_violation';
        END IF;
    ELSE
        INSERT INTO cap_days (merchant_id, currency, business_day, limit_minor)
            SELECT merchant_id, currency, NEW.business_day, limit_minor FROM caps
            WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency
            ON CONFLICT DO NOTHING;
        SELECT least(NEW.amount_minor, limit_minor - used_minor) INTO counted FROM cap_days
        WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency AND business_day = NEW.business_day FOR NO KEY UPDATE;
    END IF;
    -- This runs before the primary key is looked at, and the day would stay moved.
    PERFORM 1 FROM recovered_cap_entries
    WHERE merchant_id = NEW.merchant_id AND refund_ref = NEW.refund_ref AND step = NEW.step;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    NEW.counted_minor := coalesce(counted, 0);
    UPDATE cap_days SET used_minor = used_minor + NEW.counted_minor
    WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency AND business_day = NEW.business_day;
    RETURN NEW;
END $$;
CREATE TRIGGER moves_cap BEFORE INSERT ON recovered_cap_entries FOR EACH ROW EXECUTE FUNCTION apply_recovered_cap_entry();

-- Only a recovery, which is the owner's, counts; the worker gives back what then came to nothing.
CREATE POLICY worker_returns ON recovered_cap_entries AS RESTRICTIVE FOR INSERT TO onceback_worker WITH CHECK (step = 'return');
GRANT SELECT ON recovered_cap_entries TO onceback_console, onceback_worker;
GRANT INSERT (merchant_id, refund_ref, step, currency, business_day, amount_minor) ON recovered_cap_entries TO onceback_worker;

-- Two engineers who said which units a refund was of, where the provider keeps a digest of them only.
ALTER TABLE recovered_refunds ADD COLUMN first_engineer text CHECK (length(first_engineer) BETWEEN 2 AND 80);
ALTER TABLE recovered_refunds ADD COLUMN second_engineer text CHECK (length(second_engineer) BETWEEN 2 AND 80);
ALTER TABLE recovered_refunds ADD CONSTRAINT two_engineers_close CHECK (
    num_nonnulls(first_engineer, second_engineer) IN (0, 2) AND lower(first_engineer) <> lower(second_engineer)
);

-- Who let a person sign in again, and why: after a recovery everybody is switched off. Nobody's tenant, as people are.
CREATE TABLE people_let_in (
    staff_id uuid NOT NULL REFERENCES staff (staff_id),
    at timestamptz NOT NULL DEFAULT now(),
    engineer text NOT NULL CHECK (length(engineer) BETWEEN 2 AND 80),
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 200),
    generation integer NOT NULL CHECK (generation > 0),
    PRIMARY KEY (staff_id, at)
);

CREATE FUNCTION let_in_on_the_record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM people_let_in WHERE staff_id = NEW.staff_id AND at >= OLD.disabled_at;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a person who was switched off is let in on the record' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER on_the_record BEFORE UPDATE OF disabled_at ON staff
    FOR EACH ROW WHEN (OLD.disabled_at IS NOT NULL AND NEW.disabled_at IS NULL) EXECUTE FUNCTION let_in_on_the_record();

-- What an alarm was about is over, as the worker saw; people's closings stand beside it (alarm_closings).
CREATE TABLE alarm_endings (
    merchant_id uuid NOT NULL,
    alarm_id uuid NOT NULL,
    because text NOT NULL CHECK (length(because) BETWEEN 1 AND 200),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, alarm_id),
    FOREIGN KEY (merchant_id, alarm_id) REFERENCES alarms (merchant_id, alarm_id)
);
CREATE TRIGGER closes AFTER INSERT ON alarm_endings FOR EACH ROW EXECUTE FUNCTION apply_alarm_closing();
GRANT SELECT ON alarm_endings TO onceback_console, onceback_worker;
GRANT INSERT (merchant_id, alarm_id, because) ON alarm_endings TO onceback_worker;

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['recovered_cap_entries', 'people_let_in', 'alarm_endings'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;
