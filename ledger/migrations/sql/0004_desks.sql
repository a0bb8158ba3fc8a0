-- What left as a file, and what the console refused: rows that the trail and the metrics are read from. Nothing here moves money.

-- Who took what out, under which filter and why: before the first byte leaves (S60). Without an end it was broken off.
CREATE TABLE exports (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    export_id uuid NOT NULL,
    what text NOT NULL CHECK (what IN ('refunds', 'credits', 'discrepancies', 'trail', 'metrics')),
    filter jsonb NOT NULL CHECK (pg_column_size(filter) <= 4000),
    reason text NOT NULL CHECK (length(reason) BETWEEN 3 AND 300),
    staff_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, export_id),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE TABLE export_ends (
    merchant_id uuid NOT NULL,
    export_id uuid NOT NULL,
    rows integer NOT NULL CHECK (rows BETWEEN 0 AND 50000),
    sha256 bytea NOT NULL CHECK (length(sha256) = 32),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, export_id),
    FOREIGN KEY (merchant_id, export_id) REFERENCES exports (merchant_id, export_id)
);

-- An act that was refused leaves nothing else behind: what it would have written was rolled back.
CREATE TABLE refused_acts (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    refusal_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('already_refunded', 'stale')),
    actor text NOT NULL CHECK (actor ~ '^(staff|token):'),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, refusal_id)
);

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['exports', 'export_ends', 'refused_acts'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

-- No other role takes a file out, whatever the program that asks (SECURITY section 2).
CREATE FUNCTION finance_exports() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF coalesce(brake_role(NEW.merchant_id, NEW.staff_id), '') <> 'finance' THEN
        RAISE EXCEPTION 'finance exports' USING ERRCODE = 'check_violation', CONSTRAINT = 'finance_only';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER by_finance BEFORE INSERT ON exports FOR EACH ROW EXECUTE FUNCTION finance_exports();

-- Few events in a million are one of these; the metrics count them without reading the rest.
CREATE INDEX events_rejecting ON events (merchant_id, event_id) WHERE kind = 'case.rejected';

GRANT SELECT, INSERT ON exports, export_ends, refused_acts TO onceback_console;
