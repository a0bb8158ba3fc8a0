-- Personal data does not stay for ever, and what the money stands on does (S77, S78). Contact, words, photos and tracking numbers
-- stand beside the hash chain and outside every seal; they are overwritten by one job, and nothing else about their rows changes.

-- How long each is kept; a merchant without a row has the defaults.
CREATE TABLE retention (
    merchant_id uuid PRIMARY KEY REFERENCES merchants (id),
    text_months integer NOT NULL DEFAULT 24 CHECK (text_months BETWEEN 1 AND 120),
    photo_days integer NOT NULL DEFAULT 540 CHECK (photo_days BETWEEN 30 AND 3650)
);

-- Somebody asked to be forgotten: one admin writes it down, a second one decides, the job does it when no case is open.
CREATE TABLE erasures (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    erasure_id uuid NOT NULL,
    customer_id uuid NOT NULL,
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 300),
    asked_by uuid NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT now(),
    decided_by uuid,
    decided_at timestamptz,
    granted boolean,
    done_at timestamptz,
    cases integer,
    photos integer,
    PRIMARY KEY (merchant_id, erasure_id),
    CHECK (num_nonnulls(decided_by, decided_at, granted) IN (0, 3)),
    CONSTRAINT two_admins CHECK (granted IS NOT TRUE OR decided_by <> asked_by),
    CHECK (done_at IS NULL OR granted),
    CHECK (num_nonnulls(done_at, cases, photos) IN (0, 3)),
    FOREIGN KEY (merchant_id, customer_id) REFERENCES customers (merchant_id, customer_id),
    FOREIGN KEY (merchant_id, asked_by) REFERENCES memberships (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, decided_by) REFERENCES memberships (merchant_id, staff_id)
);
CREATE UNIQUE INDEX one_erasure_waits ON erasures (merchant_id, customer_id) WHERE decided_at IS NULL OR granted AND done_at IS NULL;

CREATE FUNCTION erase_by_two_admins() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.decided_at IS NOT NULL OR coalesce(brake_role(NEW.merchant_id, NEW.asked_by), '') <> 'admin' THEN
            RAISE EXCEPTION 'an admin asks for an erasure' USING ERRCODE = 'check_violation', CONSTRAINT = 'by_admins';
        END IF;
    ELSIF OLD.decided_at IS NULL AND NEW.decided_at IS NOT NULL THEN
        IF coalesce(brake_role(NEW.merchant_id, NEW.decided_by), '') <> 'admin' THEN
            RAISE EXCEPTION 'an admin decides an erasure' USING ERRCODE = 'check_violation', CONSTRAINT = 'by_admins';
        END IF;
    ELSIF OLD.done_at IS NOT NULL OR to_jsonb(OLD) - ARRAY['done_at', 'cases', 'photos'] <> to_jsonb(NEW) - ARRAY['done_at', 'cases', 'photos'] THEN
        RAISE EXCEPTION 'what was decided stays' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER by_admins BEFORE INSERT OR UPDATE ON erasures FOR EACH ROW EXECUTE FUNCTION erase_by_two_admins();
CREATE TRIGGER never_deleted BEFORE DELETE ON erasures FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON erasures FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

ALTER TABLE cases ADD COLUMN text_erased_at timestamptz, ADD COLUMN photos_erased_at timestamptz;
CREATE INDEX cases_with_texts ON cases (merchant_id, closed_at) WHERE closed_at IS NOT NULL AND text_erased_at IS NULL;
ALTER TABLE photos ADD COLUMN erased boolean NOT NULL DEFAULT false;
CREATE INDEX photos_kept ON photos (merchant_id, at) WHERE NOT erased;
ALTER TABLE customers ADD COLUMN erased_at timestamptz;
CREATE INDEX customers_known ON customers (merchant_id, created_at) WHERE erased_at IS NULL;

-- A row that was append-only still is, but for being erased: each of the named columns may become its erased form, once the case
-- is closed, and nothing else. Arguments: erased forms as JSON; a column that must stay unique, and the row's id, for "erased-<id>".
CREATE FUNCTION only_erased() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    erased jsonb := TG_ARGV[0]::jsonb;
    was jsonb;
    is_now jsonb;
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    was := to_jsonb(OLD);
    is_now := to_jsonb(NEW);
    IF TG_ARGV[1] <> '' THEN
        erased := erased || jsonb_build_object(TG_ARGV[1], 'erased-' || (was->>TG_ARGV[2]));
    END IF;
    IF was = is_now OR was - ARRAY(SELECT jsonb_object_keys(erased)) <> is_now - ARRAY(SELECT jsonb_object_keys(erased))
        OR EXISTS (SELECT FROM jsonb_each(erased) AS e (name, form)
            WHERE is_now->e.name <> e.form AND is_now->e.name <> was->e.name) THEN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    PERFORM FROM cases WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id AND closed_at IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the case is open' USING ERRCODE = 'restrict_violation', CONSTRAINT = 'erased_when_closed';
    END IF;
    RETURN NEW;
END $$;

DO $$
DECLARE t record;
BEGIN
    FOR t IN SELECT * FROM (VALUES
        ('conversations', '{"customer_text": "Erased."}', 'reference', 'conversation_id'),
        ('evidence', '{"note": "Erased.", "parcel": ""}', '', ''),
        ('photos', '{"caption": "Erased.", "content": "\\x", "erased": true}', '', ''),
        ('notes', '{"text": "Erased."}', '', ''),
        ('parcels', '{}', 'tracking', 'parcel_id'),
        ('case_facts', '{"note": "Erased.", "customer_ref": "Erased."}', '', ''),
        ('entitlements', '{"evidence": null, "inputs_erased": true}', '', '')) AS v (name, erased, unique_column, id)
    LOOP
        EXECUTE format('DROP TRIGGER append_only ON %I', t.name);
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION only_erased(%L, %L, %L)',
            t.name, t.erased, t.unique_column, t.id);
    END LOOP;
END $$;

-- As in 0003_duplicates. The text that findings are in goes with them; its digest stays bound in the record, and no row is born so.
ALTER TABLE entitlements ADD COLUMN inputs_erased boolean NOT NULL DEFAULT false;
ALTER TABLE entitlements DROP CONSTRAINT inputs_are_stored_as_bound, ADD CONSTRAINT inputs_are_stored_as_bound CHECK (
    CASE WHEN inputs_erased THEN evidence IS NULL ELSE (
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
) IS TRUE END) NOT VALID;
CREATE POLICY never_born_erased ON entitlements AS RESTRICTIVE FOR INSERT WITH CHECK (NOT inputs_erased);

-- Whoever was erased stays so, also when an old file is imported again.
CREATE FUNCTION stay_erased() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.name := 'Erased';
    NEW.email := NULL;
    NEW.erased_at := OLD.erased_at;
    RETURN NEW;
END $$;
CREATE TRIGGER stays_erased BEFORE UPDATE ON customers FOR EACH ROW WHEN (OLD.erased_at IS NOT NULL) EXECUTE FUNCTION stay_erased();

GRANT SELECT ON retention TO onceback_console, onceback_worker;
GRANT SELECT, INSERT ON erasures TO onceback_console;
GRANT UPDATE (decided_by, decided_at, granted) ON erasures TO onceback_console;
GRANT SELECT ON erasures TO onceback_worker;
GRANT UPDATE (done_at, cases, photos) ON erasures TO onceback_worker;
-- The job writes over what it may not read.
GRANT UPDATE (text_erased_at, photos_erased_at) ON cases TO onceback_worker;
GRANT SELECT (merchant_id, customer_id, created_at, erased_at) ON customers TO onceback_worker;
GRANT UPDATE (name, email, erased_at) ON customers TO onceback_worker;
GRANT SELECT (merchant_id, case_id, conversation_id) ON conversations TO onceback_worker;
GRANT UPDATE (customer_text, reference) ON conversations TO onceback_worker;
GRANT SELECT (merchant_id, case_id, note_id) ON notes TO onceback_worker;
GRANT UPDATE (text) ON notes TO onceback_worker;
GRANT UPDATE (note, parcel) ON evidence TO onceback_worker;
GRANT UPDATE (tracking) ON parcels TO onceback_worker;
GRANT UPDATE (note, customer_ref) ON case_facts TO onceback_worker;
GRANT UPDATE (evidence, inputs_erased) ON entitlements TO onceback_worker;
GRANT SELECT (at, erased) ON photos TO onceback_worker;
GRANT UPDATE (caption, content, erased) ON photos TO onceback_worker;
GRANT SELECT (merchant_id, receipt_id, answered_at) ON unmatched_receipts TO onceback_worker;
GRANT UPDATE (note, parcel, lines, order_ref) ON unmatched_receipts TO onceback_worker;
GRANT SELECT ON receipt_answers TO onceback_worker;
GRANT SELECT (at), DELETE ON sign_in_misses TO onceback_worker;
GRANT SELECT (seen_at, session_hash), UPDATE (address, content) ON sessions TO onceback_worker;
