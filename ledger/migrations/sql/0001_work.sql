-- What the workers need: the outbox, attempts and their results, looks at the provider, the webhook inbox, alarms.

-- The request is frozen when it is approved: every attempt sends these bytes under this key, or nothing.
CREATE TABLE outbox (
    merchant_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    request jsonb NOT NULL,
    request_digest bytea NOT NULL CHECK (length(request_digest) = 32),
    trace text NOT NULL DEFAULT '' CHECK (length(trace) <= 60),
    approved_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    done_at timestamptz,
    PRIMARY KEY (merchant_id, intent_id),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES intents (merchant_id, intent_id)
);
CREATE INDEX outbox_due ON outbox (merchant_id, due_at, intent_id) WHERE done_at IS NULL;

CREATE TABLE attempts (
    merchant_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    attempt_no integer NOT NULL CHECK (attempt_no > 0),
    worker_id bigint NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    lease_until timestamptz NOT NULL,
    PRIMARY KEY (merchant_id, intent_id, attempt_no),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES outbox (merchant_id, intent_id)
);
CREATE TABLE attempt_results (
    merchant_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    attempt_no integer NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('confirmed', 'refused', 'not_accepted', 'unknown')),
    http_status integer,
    provider_request_ref text NOT NULL DEFAULT '' CHECK (length(provider_request_ref) <= 80),
    refund_ref text CHECK (length(refund_ref) <= 80),
    refund_status text CHECK (length(refund_status) <= 40),
    code text NOT NULL DEFAULT '' CHECK (length(code) <= 80),
    detail text NOT NULL DEFAULT '' CHECK (length(detail) <= 300),
    recorded_by bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, intent_id, attempt_no),
    FOREIGN KEY (merchant_id, intent_id, attempt_no) REFERENCES attempts (merchant_id, intent_id, attempt_no)
);
-- One row per look at the provider for an intent whose outcome is not known or not final.
CREATE TABLE looks (
    merchant_id uuid NOT NULL,
    look_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    found text NOT NULL CHECK (found IN ('nothing', 'ours', 'no_answer')),
    refund_ref text CHECK (length(refund_ref) <= 80),
    refund_status text CHECK (length(refund_status) <= 40),
    detail text NOT NULL DEFAULT '' CHECK (length(detail) <= 300),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, look_id),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES outbox (merchant_id, intent_id)
);
CREATE INDEX looks_of_intent ON looks (merchant_id, intent_id, at);

CREATE TABLE provider_events (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    event_ref text NOT NULL CHECK (length(event_ref) BETWEEN 1 AND 80),
    kind text NOT NULL CHECK (length(kind) <= 80),
    object_ref text NOT NULL CHECK (length(object_ref) <= 80),
    payment_intent_ref text NOT NULL DEFAULT '' CHECK (length(payment_intent_ref) <= 80),
    created_at timestamptz NOT NULL,
    body_digest bytea NOT NULL CHECK (length(body_digest) = 32),
    received_at timestamptz NOT NULL DEFAULT now(),
    done_at timestamptz,
    result text NOT NULL DEFAULT '' CHECK (length(result) <= 60),
    PRIMARY KEY (merchant_id, event_ref)
);
CREATE INDEX provider_events_waiting ON provider_events (merchant_id, received_at) WHERE done_at IS NULL;

CREATE TABLE alarms (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    alarm_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind ~ '^[a-z_]+$'),
    intent_id uuid,
    text text NOT NULL CHECK (length(text) <= 300),
    raised_at timestamptz NOT NULL DEFAULT now(),
    closed_at timestamptz,
    PRIMARY KEY (merchant_id, alarm_id)
);
CREATE INDEX alarms_open ON alarms (merchant_id, raised_at) WHERE closed_at IS NULL;
