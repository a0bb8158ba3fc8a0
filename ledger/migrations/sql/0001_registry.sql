-- Deployment, merchants, people, sessions, tokens. Text is bounded here because a form limit is not a guard.

CREATE TABLE deployment (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    deployment_id uuid NOT NULL,
    generation integer NOT NULL DEFAULT 1 CHECK (generation > 0),
    livemode boolean NOT NULL DEFAULT false
);

-- The registry of tenants is the one table workers read before they have a tenant; it names no customer.
CREATE TABLE merchants (
    id uuid PRIMARY KEY,
    slug text NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9][a-z0-9-]{1,39}$'),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    zone text NOT NULL CHECK (length(zone) BETWEEN 1 AND 64),
    region text NOT NULL DEFAULT '' CHECK (length(region) <= 8),
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE merchant_brakes (
    merchant_id uuid PRIMARY KEY REFERENCES merchants (id),
    paused_at timestamptz,
    paused_by text CHECK (length(paused_by) <= 80),
    stopped_at timestamptz,
    stopped_reason text CHECK (length(stopped_reason) <= 200)
);

CREATE TABLE provider_accounts (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    provider_account_id uuid NOT NULL,
    provider text NOT NULL CHECK (provider IN ('stripe')),
    account_ref text NOT NULL DEFAULT '' CHECK (length(account_ref) <= 64),
    livemode boolean NOT NULL,
    credential text NOT NULL CHECK (credential ~ '^[a-z0-9_]{1,60}$'),
    PRIMARY KEY (merchant_id, provider_account_id)
);

CREATE TABLE staff (
    staff_id uuid PRIMARY KEY,
    email text NOT NULL UNIQUE CHECK (email = lower(email) AND length(email) BETWEEN 3 AND 254),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    password_hash text NOT NULL CHECK (length(password_hash) <= 300),
    zone text NOT NULL DEFAULT 'UTC' CHECK (length(zone) <= 64),
    theme text NOT NULL DEFAULT 'system' CHECK (theme IN ('system', 'light', 'dark')),
    shortcuts boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_sign_in_at timestamptz,
    disabled_at timestamptz
);

CREATE TABLE memberships (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    staff_id uuid NOT NULL REFERENCES staff (staff_id),
    role text NOT NULL CHECK (role IN ('reader', 'desk', 'manager', 'admin')),
    since timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    PRIMARY KEY (merchant_id, staff_id)
);

CREATE TABLE sessions (
    session_hash bytea PRIMARY KEY CHECK (length(session_hash) = 32),
    staff_id uuid REFERENCES staff (staff_id),
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    user_agent_hash bytea NOT NULL,
    address text NOT NULL CHECK (length(address) <= 64),
    content jsonb NOT NULL DEFAULT '{}',
    ended_at timestamptz
);
CREATE INDEX sessions_of_staff ON sessions (staff_id) WHERE ended_at IS NULL;

CREATE TABLE sign_in_misses (
    miss_id uuid PRIMARY KEY,
    bucket bytea NOT NULL CHECK (length(bucket) = 32),
    at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sign_in_misses_by_bucket ON sign_in_misses (bucket, at);

CREATE TABLE api_tokens (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    token_id text NOT NULL UNIQUE CHECK (token_id ~ '^[a-z0-9]{12}$'),
    secret_hash bytea NOT NULL CHECK (length(secret_hash) = 32),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    channel text NOT NULL CHECK (channel ~ '^[a-z][a-z_]{1,23}$'),
    scopes text[] NOT NULL CHECK (
        scopes <@ ARRAY['cases:open', 'cases:read', 'evidence:write', 'receipts:write', 'orders:import']
        AND (NOT 'orders:import' = ANY (scopes) OR cardinality(scopes) = 1)
    ),
    networks text[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    last_used_at timestamptz,
    revoked_at timestamptz,
    PRIMARY KEY (merchant_id, token_id),
    CHECK (expires_at <= created_at + interval '180 days')
);

-- The caller's key, kept with the answer it produced. The row and the work it stands for commit together.
CREATE TABLE idempotency_keys (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    scope text NOT NULL CHECK (length(scope) <= 80),
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    body_digest bytea NOT NULL CHECK (length(body_digest) = 32),
    status smallint NOT NULL,
    answer jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, scope, key)
);

CREATE TABLE policies (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    policy_id text NOT NULL CHECK (policy_id ~ '^[a-z0-9][a-z0-9-]{0,59}$'),
    version integer NOT NULL CHECK (version > 0),
    effective tstzrange NOT NULL CHECK (NOT isempty(effective)),
    document jsonb NOT NULL,
    digest bytea NOT NULL CHECK (length(digest) = 32),
    author text NOT NULL,
    approver text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, policy_id, version),
    CHECK (author <> approver),
    CONSTRAINT policies_never_overlap EXCLUDE USING gist (merchant_id WITH =, policy_id WITH =, effective WITH &&)
);
