-- Cases, the units they hold, who asked, what was seen, what is owed.

CREATE SEQUENCE case_number AS bigint START 20001;

CREATE TABLE cases (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    case_id uuid NOT NULL,
    number bigint NOT NULL DEFAULT nextval('case_number'),
    order_id uuid NOT NULL,
    customer_id uuid,
    kind text NOT NULL DEFAULT 'return' CHECK (kind IN ('return')),
    reason text NOT NULL CHECK (reason IN ('changed_mind', 'size', 'faulty', 'damaged', 'wrong_item', 'other')),
    separate boolean NOT NULL DEFAULT false,
    -- One spelling of a person, for P7 compares it.
    opened_by text NOT NULL CHECK (opened_by ~ '^(staff:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|token:.+)$'),
    channel text NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz NOT NULL,
    closed_at timestamptz,
    stage text NOT NULL DEFAULT 'waiting_goods' CHECK (stage IN (
        'waiting_goods', 'ready', 'needs_person', 'nothing_due', 'approved', 'held', 'sending', 'unknown', 'pending',
        'needs_review', 'paid', 'came_back', 'refused', 'rejected'
    )),
    -- What a queue row shows, kept by the commands that change it, so that a page of the queue is one index scan.
    summary text NOT NULL DEFAULT '',
    announced integer NOT NULL DEFAULT 0,
    received integer NOT NULL DEFAULT 0,
    grades text NOT NULL DEFAULT '',
    signals smallint NOT NULL DEFAULT 0,
    currency text NOT NULL,
    amount_minor bigint,
    head_number integer NOT NULL DEFAULT 0,
    head_hash bytea,
    lock_no integer NOT NULL DEFAULT 0,
    PRIMARY KEY (merchant_id, case_id),
    UNIQUE (merchant_id, number),
    UNIQUE (merchant_id, case_id, order_id),
    UNIQUE (merchant_id, case_id, opened_by),
    FOREIGN KEY (merchant_id, order_id) REFERENCES orders (merchant_id, order_id),
    FOREIGN KEY (merchant_id, customer_id) REFERENCES customers (merchant_id, customer_id)
);
CREATE INDEX cases_open_by_due ON cases (merchant_id, due_at, case_id) WHERE closed_at IS NULL;
CREATE INDEX cases_by_stage ON cases (merchant_id, stage, due_at, case_id);
CREATE INDEX cases_by_age ON cases (merchant_id, opened_at DESC, case_id DESC);
CREATE INDEX cases_of_order ON cases (merchant_id, order_id);
CREATE INDEX cases_of_customer ON cases (merchant_id, customer_id, opened_at);

-- P1. A unit on a live row is spoken for: by an open case, or for ever by a paid one.
CREATE TABLE case_items (
    merchant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    case_id uuid NOT NULL,
    order_id uuid NOT NULL,
    line_id uuid NOT NULL,
    line_quantity integer NOT NULL,
    units int4range NOT NULL CHECK (
        NOT isempty(units) AND NOT lower_inf(units) AND NOT upper_inf(units)
        AND lower(units) >= 0 AND upper(units) <= line_quantity
    ),
    live boolean NOT NULL DEFAULT true,
    PRIMARY KEY (merchant_id, item_id),
    CONSTRAINT units_returned_once EXCLUDE USING gist (merchant_id WITH =, line_id WITH =, units WITH &&) WHERE (live),
    FOREIGN KEY (merchant_id, case_id, order_id) REFERENCES cases (merchant_id, case_id, order_id),
    FOREIGN KEY (merchant_id, line_id, order_id, line_quantity)
        REFERENCES order_lines (merchant_id, line_id, order_id, quantity)
);
CREATE INDEX case_items_of_case ON case_items (merchant_id, case_id);
CREATE INDEX case_items_of_order ON case_items (merchant_id, order_id);

CREATE TABLE conversations (
    merchant_id uuid NOT NULL,
    conversation_id uuid NOT NULL,
    case_id uuid NOT NULL,
    channel text NOT NULL CHECK (length(channel) <= 24),
    reference text NOT NULL CHECK (length(reference) BETWEEN 1 AND 120),
    actor text NOT NULL CHECK (actor ~ '^(staff|token):'),
    customer_verified text NOT NULL DEFAULT '' CHECK (length(customer_verified) <= 40),
    customer_text text NOT NULL DEFAULT '' CHECK (length(customer_text) <= 4000),
    joined boolean NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, conversation_id),
    UNIQUE (merchant_id, case_id, channel, reference),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id)
);

CREATE TABLE evidence (
    merchant_id uuid NOT NULL,
    evidence_id uuid NOT NULL,
    case_id uuid NOT NULL,
    number integer NOT NULL CHECK (number > 0),
    kind text NOT NULL CHECK (kind IN ('announced', 'received', 'inspected')),
    line_id uuid NOT NULL,
    count integer CHECK (count >= 0),
    units int4range CHECK (NOT isempty(units) AND NOT lower_inf(units) AND NOT upper_inf(units) AND lower(units) >= 0),
    grade text CHECK (grade IN ('N', 'A', 'B', 'C', 'D', 'M', 'X')),
    parcel text NOT NULL DEFAULT '' CHECK (length(parcel) <= 120),
    note text NOT NULL DEFAULT '' CHECK (length(note) <= 2000),
    channel text NOT NULL,
    actor text NOT NULL CHECK (actor ~ '^(staff|token):'),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, evidence_id),
    UNIQUE (merchant_id, case_id, number),
    CHECK ((kind = 'inspected') = (grade IS NOT NULL AND units IS NOT NULL)),
    CHECK ((kind <> 'inspected') = (count IS NOT NULL)),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, line_id) REFERENCES order_lines (merchant_id, line_id)
);

CREATE TABLE photos (
    merchant_id uuid NOT NULL,
    photo_id uuid NOT NULL,
    case_id uuid NOT NULL,
    line_id uuid,
    unit integer CHECK (unit >= 0),
    caption text NOT NULL CHECK (length(caption) <= 200),
    content_type text NOT NULL CHECK (content_type IN ('image/jpeg', 'image/png', 'image/webp')),
    sha256 bytea NOT NULL CHECK (length(sha256) = 32),
    original_sha256 bytea NOT NULL CHECK (length(original_sha256) = 32),
    content bytea NOT NULL CHECK (length(content) <= 10485760),
    actor text NOT NULL CHECK (actor ~ '^(staff|token):'),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, photo_id),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, line_id) REFERENCES order_lines (merchant_id, line_id)
);
CREATE INDEX photos_of_case ON photos (merchant_id, case_id);

CREATE TABLE notes (
    merchant_id uuid NOT NULL,
    note_id uuid NOT NULL,
    case_id uuid NOT NULL,
    staff_id uuid NOT NULL,
    text text NOT NULL CHECK (length(text) BETWEEN 1 AND 2000),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, note_id),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE INDEX notes_of_case ON notes (merchant_id, case_id);

CREATE TABLE entitlements (
    merchant_id uuid NOT NULL,
    entitlement_id uuid NOT NULL,
    case_id uuid NOT NULL,
    n integer NOT NULL CHECK (n > 0),
    policy_id text NOT NULL,
    policy_version integer NOT NULL,
    evidence_digest bytea NOT NULL CHECK (length(evidence_digest) = 32),
    outcome text NOT NULL CHECK (outcome IN ('payable', 'wait', 'nothing_due', 'refused', 'needs_review')),
    currency text NOT NULL,
    total_minor bigint NOT NULL CHECK (total_minor >= 0),
    tax_minor bigint NOT NULL CHECK (tax_minor BETWEEN 0 AND total_minor),
    payable_minor bigint NOT NULL CHECK (payable_minor BETWEEN 0 AND total_minor),
    record jsonb NOT NULL,
    digest bytea NOT NULL CHECK (length(digest) = 32),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, entitlement_id),
    UNIQUE (merchant_id, case_id, n),
    UNIQUE (merchant_id, entitlement_id, case_id),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, policy_id, policy_version) REFERENCES policies (merchant_id, policy_id, version)
);
