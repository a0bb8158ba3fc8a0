-- A database that went back in time: generations, and what must be read again before it is paid.

-- One row each time the books were taken up again after a backup was restored. Nobody's tenant, as the deployment is.
CREATE TABLE recoveries (
    generation integer PRIMARY KEY CHECK (generation > 1),
    first_engineer text NOT NULL CHECK (length(first_engineer) BETWEEN 2 AND 80),
    second_engineer text NOT NULL CHECK (length(second_engineer) BETWEEN 2 AND 80),
    backup_at timestamptz NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT two_engineers CHECK (lower(first_engineer) <> lower(second_engineer))
);

-- What the provider listed and the backup did not know, or knew as unpaid. `by_hand` waits for people; a later row of the
-- same refund with another outcome is what came of it.
CREATE TABLE recovered_refunds (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    refund_ref text NOT NULL CHECK (length(refund_ref) BETWEEN 1 AND 80),
    outcome text NOT NULL CHECK (outcome IN ('adopted', 'rebuilt', 'external', 'by_hand')),
    generation integer NOT NULL REFERENCES recoveries (generation),
    case_id uuid,
    intent_id uuid,
    capture_id uuid,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    reference text NOT NULL DEFAULT '' CHECK (length(reference) <= 80),
    units jsonb NOT NULL DEFAULT '[]',
    reason text NOT NULL DEFAULT '' CHECK (length(reason) <= 200),
    refunded_at timestamptz NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, refund_ref, outcome),
    CHECK (outcome <> 'rebuilt' OR (case_id IS NOT NULL AND capture_id IS NOT NULL)),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, capture_id) REFERENCES captures (merchant_id, capture_id)
);
CREATE INDEX recovered_refunds_of_case ON recovered_refunds (merchant_id, case_id);

-- Approvals that the backup brought back. They stay in the books and send nothing (S85).
CREATE TABLE void_approvals (
    merchant_id uuid NOT NULL,
    approval_id uuid NOT NULL,
    generation integer NOT NULL REFERENCES recoveries (generation),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, approval_id),
    FOREIGN KEY (merchant_id, approval_id) REFERENCES approvals (merchant_id, approval_id)
);

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON recovered_refunds FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON recovered_refunds FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON void_approvals FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON void_approvals FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE ON recoveries FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON recoveries FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A generation only goes up, by one, and not without the recovery that it stands for.
CREATE FUNCTION keep_generation() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.deployment_id <> OLD.deployment_id THEN
        RAISE EXCEPTION 'a deployment keeps its name' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.generation <> OLD.generation THEN
        PERFORM 1 FROM recoveries WHERE generation = NEW.generation;
        IF NOT FOUND OR NEW.generation <> OLD.generation + 1 THEN
            RAISE EXCEPTION 'a generation begins with its recovery, one after the other' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER only_upwards BEFORE UPDATE ON deployment FOR EACH ROW EXECUTE FUNCTION keep_generation();

-- S87. In which generation a capture was last compared with the provider. Money that came in after the last recovery began
-- cannot have been paid back before it; what is older, and comes into these books now, has to be read first.
ALTER TABLE captures ADD COLUMN verified_generation integer NOT NULL DEFAULT 1;

CREATE FUNCTION start_verified() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE last record;
BEGIN
    SELECT generation, started_at INTO last FROM recoveries ORDER BY generation DESC LIMIT 1;
    NEW.verified_generation := CASE WHEN NOT FOUND THEN coalesce((SELECT generation FROM deployment), 1)
        WHEN NEW.captured_at > last.started_at THEN last.generation ELSE 0 END;
    RETURN NEW;
END $$;
CREATE TRIGGER verified_from_start BEFORE INSERT ON captures FOR EACH ROW EXECUTE FUNCTION start_verified();

CREATE FUNCTION keep_verified() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM deployment WHERE generation = NEW.verified_generation;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a capture is verified for the present generation' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER verified_now BEFORE UPDATE OF verified_generation ON captures
    FOR EACH ROW WHEN (NEW.verified_generation <> OLD.verified_generation) EXECUTE FUNCTION keep_verified();
CREATE INDEX captures_to_verify ON captures (merchant_id, verified_generation, capture_id) WHERE provider_account_id IS NOT NULL;

CREATE FUNCTION approve_verified_only() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM intents i
    JOIN captures c ON c.merchant_id = i.merchant_id AND c.capture_id = i.capture_id
    CROSS JOIN deployment d
    WHERE i.merchant_id = NEW.merchant_id AND i.intent_id = NEW.intent_id
        AND c.provider_account_id IS NOT NULL AND c.verified_generation <> d.generation;
    IF FOUND THEN
        RAISE EXCEPTION 'capture_not_verified: it is read again at the provider before it is paid back' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER of_verified_captures BEFORE INSERT ON approvals FOR EACH ROW EXECUTE FUNCTION approve_verified_only();

-- P1. Units that the provider paid for are held by a case without an intent; nobody lets them go.
CREATE FUNCTION keep_recovered_units() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM recovered_refunds r WHERE r.merchant_id = OLD.merchant_id AND r.case_id = OLD.case_id AND r.outcome = 'rebuilt';
    IF FOUND THEN
        RAISE EXCEPTION 'units that were paid before a recovery are not released' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER recovered_units_stay BEFORE UPDATE ON case_items
    FOR EACH ROW WHEN (NEW.live IS DISTINCT FROM OLD.live OR NEW.units IS DISTINCT FROM OLD.units)
    EXECUTE FUNCTION keep_recovered_units();

GRANT SELECT ON recoveries, recovered_refunds, void_approvals TO onceback_console, onceback_worker;
GRANT UPDATE (verified_generation) ON captures TO onceback_worker;
GRANT UPDATE (closed_at) ON alarms TO onceback_worker;
-- What the overdue scanner counts: that a raise waits, not what it is for.
GRANT SELECT (merchant_id, business_day, asked_at, decided_at) ON cap_raises TO onceback_worker;

-- A refund of ours that the books lost takes its place as what others do at the provider does, under a kind of its own.
ALTER TABLE external_refunds DROP CONSTRAINT external_refunds_kind_check;
ALTER TABLE external_refunds ADD CONSTRAINT external_refunds_kind_check
    CHECK (kind IN ('outside', 'unsealed', 'unexpected', 'recovered'));
