-- Row-level security, forced on the owner too, and the grants of each run-time role.
-- One restrictive policy pins the tenant; the permissive one only opens the table to roles that hold a grant.

DO $$
DECLARE t record;
BEGIN
    FOR t IN
        SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'merchant_id'
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t.relname);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t.relname);
        EXECUTE format('CREATE POLICY granted ON %I AS PERMISSIVE FOR ALL USING (true) WITH CHECK (true)', t.relname);
        IF t.relname NOT IN ('memberships', 'api_tokens') THEN
            EXECUTE format('CREATE POLICY tenant ON %I AS RESTRICTIVE FOR ALL
                USING (merchant_id = NULLIF(current_setting(''onceback.merchant'', true), '''')::uuid)
                WITH CHECK (merchant_id = NULLIF(current_setting(''onceback.merchant'', true), '''')::uuid)', t.relname);
        END IF;
    END LOOP;
END $$;

-- Before a tenant is known, a person may read the memberships that are theirs, and a token the row that is its own.
CREATE POLICY tenant ON memberships AS RESTRICTIVE FOR ALL
    USING (merchant_id = NULLIF(current_setting('onceback.merchant', true), '')::uuid
        OR staff_id = NULLIF(current_setting('onceback.staff', true), '')::uuid)
    WITH CHECK (merchant_id = NULLIF(current_setting('onceback.merchant', true), '')::uuid);
CREATE POLICY tenant ON api_tokens AS RESTRICTIVE FOR ALL
    USING (merchant_id = NULLIF(current_setting('onceback.merchant', true), '')::uuid
        OR token_id = NULLIF(current_setting('onceback.token', true), ''))
    WITH CHECK (merchant_id = NULLIF(current_setting('onceback.merchant', true), '')::uuid
        OR token_id = NULLIF(current_setting('onceback.token', true), ''));

-- The console revokes tokens; a revoked one is out of its reach.
CREATE POLICY stays_revoked ON api_tokens AS RESTRICTIVE FOR UPDATE TO onceback_console
    USING (revoked_at IS NULL) WITH CHECK (true);

-- Who may make which move. The console never settles; the worker never approves.
CREATE POLICY console_steps ON transfers AS RESTRICTIVE FOR INSERT TO onceback_console
    WITH CHECK (step IN ('reserve', 'release'));
CREATE POLICY worker_steps ON transfers AS RESTRICTIVE FOR INSERT TO onceback_worker
    WITH CHECK (step <> 'reserve');
CREATE POLICY console_moves ON events AS RESTRICTIVE FOR INSERT TO onceback_console
    WITH CHECK (to_state IS NULL OR to_state IN ('proposed', 'approved', 'held', 'withdrawn'));
CREATE POLICY worker_moves ON events AS RESTRICTIVE FOR INSERT TO onceback_worker
    WITH CHECK (to_state IS NULL OR (to_state NOT IN ('proposed', 'withdrawn') AND from_state <> 'proposed'));

GRANT USAGE ON SCHEMA public TO onceback_console, onceback_worker;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO onceback_console;
REVOKE SELECT ON attempts, attempt_results, looks, provider_events, outbox FROM onceback_console;
GRANT SELECT ON attempts, attempt_results, looks, outbox TO onceback_console;
GRANT SELECT (merchant_id, event_ref) ON provider_events TO onceback_console;
GRANT USAGE ON SEQUENCE case_number, intent_number TO onceback_console;

GRANT INSERT ON customers, orders, order_conflicts, order_lines, captures, cases, case_items, conversations, evidence,
    photos, notes, entitlements, intents, approvals, transfers, line_claims, cap_entries, cap_raises, events, outbox,
    idempotency_keys, sessions, sign_in_misses, staff, memberships, provider_events, alarms TO onceback_console;
GRANT UPDATE (lock_no) ON orders, cases, captures, intents TO onceback_console;
GRANT UPDATE (blocked, discrepancies) ON orders TO onceback_console;
GRANT UPDATE (name, email) ON customers TO onceback_console;
GRANT UPDATE (closed_at, summary, announced, received, grades, signals, amount_minor, due_at) ON cases TO onceback_console;
GRANT UPDATE (live, units) ON case_items TO onceback_console;
GRANT UPDATE (due_at, done_at) ON outbox TO onceback_console;
GRANT UPDATE (limit_minor) ON cap_days TO onceback_console;
GRANT INSERT (merchant_id, currency, business_day, limit_minor) ON cap_days TO onceback_console;
GRANT UPDATE (decided_by, decided_at, granted) ON cap_raises TO onceback_console;
GRANT UPDATE (seen_at, content, ended_at, staff_id, address) ON sessions TO onceback_console;
GRANT DELETE ON sign_in_misses TO onceback_console;
GRANT UPDATE (password_hash, zone, theme, shortcuts, last_sign_in_at, disabled_at) ON staff TO onceback_console;
GRANT UPDATE (role, ended_at) ON memberships TO onceback_console;
GRANT UPDATE (last_used_at, revoked_at) ON api_tokens TO onceback_console;
GRANT UPDATE (paused_at, paused_by) ON merchant_brakes TO onceback_console;

GRANT SELECT ON deployment, merchants, merchant_brakes, provider_accounts, policies, orders, order_lines,
    captures, cases, case_items, evidence, entitlements, intent_transitions, intents, approvals, transfers,
    line_claims, caps, cap_days, cap_entries, events, outbox, attempts, attempt_results, looks, provider_events, alarms,
    memberships TO onceback_worker;
GRANT SELECT (staff_id, name, disabled_at) ON staff TO onceback_worker;
-- Of photos only what the evidence digest needs, never the picture; customers and their messages are none of the worker's.
GRANT SELECT (merchant_id, case_id, photo_id, line_id, unit, content_type, caption, actor, sha256) ON photos TO onceback_worker;
GRANT INSERT ON transfers, line_claims, cap_entries, events, attempts, attempt_results, looks, alarms TO onceback_worker;
GRANT UPDATE (lock_no) ON orders, cases, captures TO onceback_worker;
GRANT UPDATE (closed_at, amount_minor) ON cases TO onceback_worker;
GRANT UPDATE (lock_no, provider_refund_ref, provider_reference) ON intents TO onceback_worker;
GRANT UPDATE (due_at, done_at, attempts) ON outbox TO onceback_worker;
GRANT UPDATE (done_at, result) ON provider_events TO onceback_worker;
GRANT UPDATE (stopped_at, stopped_reason) ON merchant_brakes TO onceback_worker;
