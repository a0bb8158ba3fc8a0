-- Finance: settles with evidence beside a manager, keeps the discrepancies, and approves nothing (SECURITY §2).
ALTER TABLE memberships DROP CONSTRAINT memberships_role_check;
ALTER TABLE memberships ADD CONSTRAINT memberships_role_check CHECK (role IN ('reader', 'desk', 'manager', 'finance', 'admin'));
