-- How people come in: the second factor at the door, by what the merchant asks of which roles (S6).

-- Of whom a merchant asks for a second factor: whoever has one anyway (own), everybody but readers (money), everybody (all).
ALTER TABLE merchants ADD COLUMN second_factor text NOT NULL DEFAULT 'own' CHECK (second_factor IN ('own', 'money', 'all'));

-- A session after the password alone: it opens the page of the factor, or of adding one, and nothing else. Another session
-- begins after that; this one never becomes whole.
ALTER TABLE sessions ADD COLUMN waits_for text CHECK (waits_for IN ('factor', 'enrolment'));

-- Whether a person has anything beside the password in use, and whether a merchant asks a role for it.
CREATE FUNCTION has_factor(who uuid) RETURNS boolean LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM totp_factors WHERE staff_id = who AND confirmed_at IS NOT NULL AND ended_at IS NULL)
        OR EXISTS (SELECT 1 FROM passkeys WHERE staff_id = who AND ended_at IS NULL)
$$;
CREATE FUNCTION asks_for_factor(asked text, role text) RETURNS boolean LANGUAGE sql IMMUTABLE
    SET search_path = public, pg_temp AS $$
    SELECT asked = 'all' OR (asked = 'money' AND role <> 'reader')
$$;
GRANT EXECUTE ON FUNCTION has_factor(uuid), asks_for_factor(text, text) TO onceback_console;
