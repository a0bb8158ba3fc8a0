-- Orders, their lines, and the money taken for them. Facts are written once, at import.

CREATE TABLE customers (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    customer_id uuid NOT NULL,
    external_ref text NOT NULL CHECK (length(external_ref) BETWEEN 1 AND 100),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    email text CHECK (length(email) <= 254),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, customer_id),
    UNIQUE (merchant_id, external_ref)
);

CREATE TABLE orders (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    order_id uuid NOT NULL,
    external_ref text NOT NULL CHECK (length(external_ref) BETWEEN 1 AND 100),
    customer_id uuid,
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    exponent smallint NOT NULL CHECK (exponent BETWEEN 0 AND 4),
    total_minor bigint NOT NULL CHECK (total_minor >= 0),
    placed_at timestamptz NOT NULL,
    zone text NOT NULL,
    region text NOT NULL DEFAULT '',
    channel text NOT NULL,
    price_mode text NOT NULL CHECK (price_mode IN ('inclusive', 'exclusive')),
    facts jsonb NOT NULL,
    facts_digest bytea NOT NULL CHECK (length(facts_digest) = 32),
    allocation jsonb NOT NULL,
    allocation_method text NOT NULL,
    allocation_digest bytea NOT NULL CHECK (length(allocation_digest) = 32),
    discrepancies text[] NOT NULL DEFAULT '{}',
    blocked boolean NOT NULL DEFAULT false,
    imported_at timestamptz NOT NULL DEFAULT now(),
    lock_no integer NOT NULL DEFAULT 0,
    PRIMARY KEY (merchant_id, order_id),
    UNIQUE (merchant_id, external_ref),
    FOREIGN KEY (merchant_id, customer_id) REFERENCES customers (merchant_id, customer_id)
);
CREATE INDEX orders_of_customer ON orders (merchant_id, customer_id);

-- A blocking discrepancy found when the same order arrived again with other money facts.
CREATE TABLE order_conflicts (
    merchant_id uuid NOT NULL,
    conflict_id uuid NOT NULL,
    order_id uuid NOT NULL,
    facts jsonb NOT NULL,
    facts_digest bytea NOT NULL CHECK (length(facts_digest) = 32),
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, conflict_id),
    UNIQUE (merchant_id, order_id, facts_digest),
    FOREIGN KEY (merchant_id, order_id) REFERENCES orders (merchant_id, order_id)
);

CREATE TABLE order_lines (
    merchant_id uuid NOT NULL,
    line_id uuid NOT NULL,
    order_id uuid NOT NULL,
    line_ref text NOT NULL CHECK (length(line_ref) BETWEEN 1 AND 100),
    position integer NOT NULL CHECK (position > 0),
    kind text NOT NULL CHECK (kind IN ('goods', 'shipping', 'fee')),
    sku text NOT NULL DEFAULT '' CHECK (length(sku) <= 100),
    title text NOT NULL DEFAULT '' CHECK (length(title) <= 500),
    quantity integer NOT NULL CHECK (quantity BETWEEN 1 AND 1000000),
    unit_price_minor bigint NOT NULL,
    discount_minor bigint NOT NULL DEFAULT 0 CHECK (discount_minor >= 0),
    gross_minor bigint NOT NULL CHECK (gross_minor >= 0),
    tax_minor bigint NOT NULL CHECK (tax_minor BETWEEN 0 AND gross_minor),
    step_minor integer NOT NULL DEFAULT 1 CHECK (step_minor > 0 AND gross_minor % step_minor = 0),
    claimed_minor bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (merchant_id, line_id),
    UNIQUE (merchant_id, order_id, line_ref),
    UNIQUE (merchant_id, line_id, order_id, quantity),
    CONSTRAINT claimed_within_allocated CHECK (claimed_minor BETWEEN 0 AND gross_minor),
    FOREIGN KEY (merchant_id, order_id) REFERENCES orders (merchant_id, order_id)
);
CREATE INDEX order_lines_of_order ON order_lines (merchant_id, order_id, position);

CREATE TABLE captures (
    merchant_id uuid NOT NULL,
    capture_id uuid NOT NULL,
    order_id uuid NOT NULL,
    position integer NOT NULL CHECK (position > 0),
    capture_ref text NOT NULL CHECK (length(capture_ref) BETWEEN 1 AND 100),
    tender text NOT NULL CHECK (tender IN ('card', 'wallet', 'bank', 'gift_card', 'store_credit', 'cash')),
    -- Without the provider's references a capture cannot be paid back there.
    provider_account_id uuid,
    payment_intent_ref text CHECK (length(payment_intent_ref) BETWEEN 1 AND 100),
    charge_ref text CHECK (length(charge_ref) BETWEEN 1 AND 100),
    CHECK (num_nonnulls(provider_account_id, payment_intent_ref, charge_ref) IN (0, 3)),
    destination_kind text NOT NULL CHECK (length(destination_kind) BETWEEN 1 AND 40),
    destination_brand text NOT NULL DEFAULT '' CHECK (length(destination_brand) <= 40),
    destination_last4 text NOT NULL DEFAULT '' CHECK (destination_last4 ~ '^[0-9A-Za-z]{0,4}$'),
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    captured_minor bigint NOT NULL CHECK (captured_minor >= 0),
    order_minor bigint NOT NULL CHECK (order_minor >= 0),
    step_minor smallint NOT NULL DEFAULT 1 CHECK (step_minor IN (1, 10, 100)),
    captured_at timestamptz NOT NULL,
    available_minor bigint NOT NULL,
    reserved_minor bigint NOT NULL DEFAULT 0,
    refunded_minor bigint NOT NULL DEFAULT 0,
    disputed_minor bigint NOT NULL DEFAULT 0,
    lock_no integer NOT NULL DEFAULT 0,
    PRIMARY KEY (merchant_id, capture_id),
    UNIQUE (merchant_id, capture_id, currency),
    UNIQUE (merchant_id, order_id, capture_ref),
    UNIQUE (merchant_id, provider_account_id, charge_ref),
    CONSTRAINT balances_not_negative CHECK (
        available_minor >= 0 AND reserved_minor >= 0 AND refunded_minor >= 0 AND disputed_minor >= 0
    ),
    CONSTRAINT balances_are_what_was_captured CHECK (
        available_minor + reserved_minor + refunded_minor + disputed_minor = captured_minor
    ),
    FOREIGN KEY (merchant_id, order_id) REFERENCES orders (merchant_id, order_id),
    FOREIGN KEY (merchant_id, provider_account_id) REFERENCES provider_accounts (merchant_id, provider_account_id)
);
CREATE INDEX captures_of_order ON captures (merchant_id, order_id);
CREATE INDEX captures_by_payment ON captures (merchant_id, payment_intent_ref);
