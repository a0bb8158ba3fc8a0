-- Refund intents, approvals, and the three journals that move money: transfers, line claims, cap entries.
-- State and balances have no UPDATE grant: inserting the journal row is the only way to move them.

CREATE TABLE intent_transitions (
    from_state text NOT NULL,
    to_state text NOT NULL,
    PRIMARY KEY (from_state, to_state)
);
INSERT INTO intent_transitions VALUES
    ('new', 'proposed'),
    ('proposed', 'approved'), ('proposed', 'withdrawn'),
    ('approved', 'submitting'), ('approved', 'held'), ('approved', 'withdrawn'),
    ('held', 'approved'), ('held', 'withdrawn'),
    ('submitting', 'pending'), ('submitting', 'succeeded'), ('submitting', 'failed'), ('submitting', 'unknown'),
    ('unknown', 'submitting'), ('unknown', 'pending'), ('unknown', 'succeeded'), ('unknown', 'failed'),
    ('unknown', 'needs_review'),
    ('pending', 'succeeded'), ('pending', 'failed'), ('pending', 'needs_review'),
    ('needs_review', 'pending'), ('needs_review', 'succeeded'), ('needs_review', 'failed'),
    ('succeeded', 'reversed');

CREATE SEQUENCE intent_number AS bigint START 1001;

CREATE TABLE intents (
    merchant_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    number bigint NOT NULL DEFAULT nextval('intent_number'),
    case_id uuid NOT NULL,
    order_id uuid NOT NULL,
    capture_id uuid NOT NULL,
    entitlement_id uuid NOT NULL,
    replaces uuid,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    order_minor bigint NOT NULL CHECK (order_minor > 0),
    currency text NOT NULL,
    exponent smallint NOT NULL CHECK (exponent BETWEEN 0 AND 4),
    destination_kind text NOT NULL,
    destination_brand text NOT NULL,
    destination_last4 text NOT NULL,
    provider_account_id uuid NOT NULL,
    payment_intent_ref text NOT NULL,
    charge_ref text NOT NULL,
    units jsonb NOT NULL,
    entitlement_digest bytea NOT NULL,
    evidence_digest bytea NOT NULL,
    policy_id text NOT NULL,
    policy_version integer NOT NULL,
    requester text NOT NULL CHECK (requester ~ '^(staff:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|token:.+)$'),
    case_opener text NOT NULL,
    route text NOT NULL CHECK (route IN ('desk', 'manager')),
    provider_key text NOT NULL UNIQUE CHECK (length(provider_key) BETWEEN 20 AND 255),
    created_at timestamptz NOT NULL DEFAULT now(),
    state text NOT NULL DEFAULT 'proposed',
    state_at timestamptz NOT NULL DEFAULT now(),
    state_reason text NOT NULL DEFAULT '',
    provider_refund_ref text CHECK (length(provider_refund_ref) <= 80),
    provider_reference text NOT NULL DEFAULT '' CHECK (length(provider_reference) <= 80),
    lock_no integer NOT NULL DEFAULT 0,
    PRIMARY KEY (merchant_id, intent_id),
    UNIQUE (merchant_id, number),
    UNIQUE (merchant_id, provider_refund_ref),
    UNIQUE (merchant_id, intent_id, requester, case_opener),
    UNIQUE (merchant_id, intent_id, capture_id, currency),
    UNIQUE (merchant_id, intent_id, case_id),
    FOREIGN KEY (merchant_id, case_id, order_id) REFERENCES cases (merchant_id, case_id, order_id),
    FOREIGN KEY (merchant_id, case_id, case_opener) REFERENCES cases (merchant_id, case_id, opened_by),
    FOREIGN KEY (merchant_id, capture_id, currency) REFERENCES captures (merchant_id, capture_id, currency),
    FOREIGN KEY (merchant_id, entitlement_id, case_id) REFERENCES entitlements (merchant_id, entitlement_id, case_id),
    FOREIGN KEY (merchant_id, replaces) REFERENCES intents (merchant_id, intent_id),
    FOREIGN KEY (merchant_id, policy_id, policy_version) REFERENCES policies (merchant_id, policy_id, version)
);
-- P2. A paid intent is not live: later evidence may owe a difference, as a new intent with a new approval.
CREATE UNIQUE INDEX one_live_intent_per_case_and_capture ON intents (merchant_id, case_id, capture_id)
    WHERE state IN ('proposed', 'approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review');
CREATE INDEX intents_of_case ON intents (merchant_id, case_id);
CREATE INDEX intents_of_order ON intents (merchant_id, order_id);
CREATE INDEX intents_of_capture ON intents (merchant_id, capture_id);
CREATE INDEX intents_waiting ON intents (merchant_id, state, state_at, intent_id)
    WHERE state IN ('proposed', 'approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review');

-- P6, P7. Append-only; what the person saw is in it; the seal is made outside the database.
CREATE TABLE approvals (
    merchant_id uuid NOT NULL,
    approval_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    seat smallint NOT NULL CHECK (seat IN (1, 2)),
    approver text NOT NULL CHECK (approver ~ '^staff:'),
    staff_id uuid NOT NULL,
    requester text NOT NULL,
    case_opener text NOT NULL,
    fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
    strength text NOT NULL CHECK (strength IN ('session')),
    note text NOT NULL DEFAULT '' CHECK (length(note) <= 2000),
    operation_key text NOT NULL CHECK (length(operation_key) BETWEEN 16 AND 64),
    approved_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    seal_key_id text NOT NULL,
    seal bytea NOT NULL CHECK (length(seal) = 64),
    PRIMARY KEY (merchant_id, approval_id),
    CONSTRAINT approved_once_per_seat UNIQUE (merchant_id, intent_id, seat),
    CONSTRAINT one_seat_per_person UNIQUE (merchant_id, intent_id, approver),
    CONSTRAINT nobody_approves_what_they_asked_for CHECK (approver <> requester AND approver <> case_opener),
    CHECK (approver = 'staff:' || staff_id::text),
    CHECK (expires_at > approved_at),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, intent_id, requester, case_opener)
        REFERENCES intents (merchant_id, intent_id, requester, case_opener)
);

-- P3. One row per move between the balances of one capture.
CREATE TABLE transfers (
    merchant_id uuid NOT NULL,
    transfer_id uuid NOT NULL,
    capture_id uuid NOT NULL,
    currency text NOT NULL,
    intent_id uuid,
    source_ref text CHECK (length(source_ref) BETWEEN 1 AND 80),
    step text NOT NULL,
    from_balance text NOT NULL,
    to_balance text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, transfer_id),
    CONSTRAINT one_transfer_per_step UNIQUE (merchant_id, intent_id, step),
    UNIQUE (merchant_id, source_ref, step),
    CHECK (num_nonnulls(intent_id, source_ref) = 1),
    CHECK ((intent_id IS NOT NULL) = (step IN ('reserve', 'release', 'settle', 'reverse'))),
    CONSTRAINT listed_moves CHECK (
        (step, from_balance, to_balance) IN (
            ('reserve', 'available', 'reserved'), ('release', 'reserved', 'available'),
            ('settle', 'reserved', 'refunded'), ('reverse', 'refunded', 'available'),
            ('external', 'available', 'refunded'), ('external_reverse', 'refunded', 'available'),
            ('dispute', 'available', 'disputed'), ('dispute_won', 'disputed', 'available')
        )
    ),
    FOREIGN KEY (merchant_id, capture_id, currency) REFERENCES captures (merchant_id, capture_id, currency),
    FOREIGN KEY (merchant_id, intent_id, capture_id, currency)
        REFERENCES intents (merchant_id, intent_id, capture_id, currency)
);
CREATE INDEX transfers_of_capture ON transfers (merchant_id, capture_id);

-- P4. What an intent takes of each order line, and gives back when it comes to nothing.
CREATE TABLE line_claims (
    merchant_id uuid NOT NULL,
    claim_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    line_id uuid NOT NULL,
    step text NOT NULL CHECK (step IN ('claim', 'release')),
    amount_minor bigint NOT NULL CHECK ((step = 'claim') = (amount_minor > 0) AND amount_minor <> 0),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, claim_id),
    UNIQUE (merchant_id, intent_id, line_id, step),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES intents (merchant_id, intent_id),
    FOREIGN KEY (merchant_id, line_id) REFERENCES order_lines (merchant_id, line_id)
);
CREATE INDEX line_claims_of_line ON line_claims (merchant_id, line_id);

-- P11. The standing limit, one row per day that used it, and the entries that made the day's figure.
CREATE TABLE caps (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    limit_minor bigint NOT NULL CHECK (limit_minor >= 0),
    PRIMARY KEY (merchant_id, currency)
);
CREATE TABLE cap_days (
    merchant_id uuid NOT NULL,
    currency text NOT NULL,
    business_day date NOT NULL,
    limit_minor bigint NOT NULL CHECK (limit_minor >= 0),
    used_minor bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (merchant_id, currency, business_day),
    CONSTRAINT used_within_cap CHECK (used_minor >= 0 AND used_minor <= limit_minor),
    FOREIGN KEY (merchant_id, currency) REFERENCES caps (merchant_id, currency)
);
CREATE TABLE cap_entries (
    merchant_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    step text NOT NULL CHECK (step IN ('reserve', 'return')),
    currency text NOT NULL,
    business_day date NOT NULL,
    amount_minor bigint NOT NULL CHECK ((step = 'reserve') = (amount_minor > 0) AND amount_minor <> 0),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, intent_id, step),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES intents (merchant_id, intent_id)
);
CREATE INDEX cap_entries_of_day ON cap_entries (merchant_id, currency, business_day);
CREATE TABLE cap_raises (
    merchant_id uuid NOT NULL,
    raise_id uuid NOT NULL,
    currency text NOT NULL,
    business_day date NOT NULL,
    from_minor bigint NOT NULL,
    to_minor bigint NOT NULL CHECK (to_minor > from_minor),
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    asked_by uuid NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT now(),
    decided_by uuid,
    decided_at timestamptz,
    granted boolean,
    PRIMARY KEY (merchant_id, raise_id),
    CONSTRAINT a_second_person_decides CHECK (decided_by IS NULL OR decided_by <> asked_by OR NOT granted),
    CHECK (num_nonnulls(decided_by, decided_at, granted) IN (0, 3)),
    FOREIGN KEY (merchant_id, asked_by) REFERENCES memberships (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, decided_by) REFERENCES memberships (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, currency) REFERENCES caps (merchant_id, currency)
);

-- P5. Events carry the moves; a chain per case, gapless by the key to the row before.
CREATE TABLE events (
    merchant_id uuid NOT NULL,
    case_id uuid NOT NULL,
    number integer NOT NULL CHECK (number > 0),
    event_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind ~ '^[a-z_]+\.[a-z_]+$'),
    actor text NOT NULL CHECK (actor ~ '^(staff:|token:|system$|worker:)'),
    at timestamptz NOT NULL,
    intent_id uuid,
    from_state text,
    to_state text,
    reason text NOT NULL DEFAULT '' CHECK (length(reason) <= 300),
    case_stage text,
    body jsonb NOT NULL,
    previous_number integer,
    previous_hash bytea,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (merchant_id, case_id, number),
    UNIQUE (merchant_id, case_id, number, hash),
    UNIQUE (merchant_id, event_id),
    CHECK ((number = 1) = (previous_number IS NULL) AND (previous_number IS NULL) = (previous_hash IS NULL)),
    CHECK (previous_number = number - 1),
    CHECK (num_nonnulls(from_state, to_state) IN (0, 2) AND (to_state IS NULL OR intent_id IS NOT NULL)),
    CONSTRAINT listed_transitions FOREIGN KEY (from_state, to_state) REFERENCES intent_transitions (from_state, to_state),
    CONSTRAINT chained FOREIGN KEY (merchant_id, case_id, previous_number, previous_hash)
        REFERENCES events (merchant_id, case_id, number, hash),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, intent_id, case_id) REFERENCES intents (merchant_id, intent_id, case_id)
);
-- An intent is proposed once, and says so once.
CREATE UNIQUE INDEX proposed_once ON events (merchant_id, intent_id) WHERE from_state = 'new';
CREATE INDEX events_of_intent ON events (merchant_id, intent_id) WHERE intent_id IS NOT NULL;
