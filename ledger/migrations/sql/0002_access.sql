-- Row-level security for the tables of this revision, as in 0001_access; their grants stand in their own files.

DO $$
DECLARE t record;
BEGIN
    FOR t IN
        SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'merchant_id'
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND NOT c.relrowsecurity
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t.relname);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t.relname);
        EXECUTE format('CREATE POLICY granted ON %I AS PERMISSIVE FOR ALL USING (true) WITH CHECK (true)', t.relname);
        EXECUTE format('CREATE POLICY tenant ON %I AS RESTRICTIVE FOR ALL
            USING (merchant_id = NULLIF(current_setting(''onceback.merchant'', true), '''')::uuid)
            WITH CHECK (merchant_id = NULLIF(current_setting(''onceback.merchant'', true), '''')::uuid)', t.relname);
    END LOOP;
END $$;

DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proowner = current_user::regrole LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END $$;
