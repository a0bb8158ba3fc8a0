-- Goods that stand at the bench and belong to no return we know of: reported, put aside, and answered for once by a person.

CREATE SEQUENCE receipt_number AS bigint START 5001;
CREATE TABLE unmatched_receipts (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    receipt_id uuid NOT NULL,
    number bigint NOT NULL DEFAULT nextval('receipt_number'),
    why text NOT NULL CHECK (why IN ('nothing_named', 'no_case', 'several_cases', 'rejected', 'at_bench')),
    case_ref text NOT NULL DEFAULT '' CHECK (length(case_ref) <= 20),
    order_ref text NOT NULL DEFAULT '' CHECK (length(order_ref) <= 100),
    parcel text NOT NULL DEFAULT '' CHECK (length(parcel) <= 120),
    note text NOT NULL DEFAULT '' CHECK (length(note) <= 2000),
    lines jsonb NOT NULL CHECK (jsonb_typeof(lines) = 'array' AND jsonb_array_length(lines) <= 200),
    channel text NOT NULL CHECK (length(channel) <= 24),
    actor text NOT NULL CHECK (actor ~ '^(staff|token):'),
    at timestamptz NOT NULL DEFAULT now(),
    answered_at timestamptz,
    PRIMARY KEY (merchant_id, receipt_id),
    UNIQUE (merchant_id, number)
);
CREATE INDEX unmatched_receipts_open ON unmatched_receipts (merchant_id, at, receipt_id) WHERE answered_at IS NULL;
CREATE INDEX unmatched_receipts_answered ON unmatched_receipts (merchant_id, answered_at) WHERE answered_at IS NOT NULL;

-- One answer each, for the same goods are counted once.
CREATE TABLE receipt_answers (
    merchant_id uuid NOT NULL,
    receipt_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('matched', 'opened', 'sent_back', 'not_ours', 'empty')),
    case_id uuid,
    counts jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(counts) = 'array'),
    staff_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, receipt_id),
    CHECK ((kind IN ('matched', 'opened')) = (case_id IS NOT NULL)),
    FOREIGN KEY (merchant_id, receipt_id) REFERENCES unmatched_receipts (merchant_id, receipt_id),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE INDEX receipt_answers_of_case ON receipt_answers (merchant_id, case_id) WHERE case_id IS NOT NULL;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON receipt_answers FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON receipt_answers FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION receipt_is_answered() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE unmatched_receipts SET answered_at = NEW.at
    WHERE merchant_id = NEW.merchant_id AND receipt_id = NEW.receipt_id AND answered_at IS NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER answers AFTER INSERT ON receipt_answers FOR EACH ROW EXECUTE FUNCTION receipt_is_answered();

GRANT SELECT, INSERT ON unmatched_receipts, receipt_answers TO onceback_console;
GRANT UPDATE (answered_at) ON unmatched_receipts TO onceback_console;
GRANT USAGE ON SEQUENCE receipt_number TO onceback_console;
-- A parcel is looked for by the number on its label.
CREATE INDEX parcels_by_tracking ON parcels (merchant_id, tracking);
