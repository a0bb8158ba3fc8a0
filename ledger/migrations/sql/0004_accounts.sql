-- Accounts at the provider: which one a key opens, and one that does not answer.

-- With real money each key proves whose it is. Accounts that were added before are left as they are: nothing of them is approved
-- or sent until they are named (`flask merchants expect`).
ALTER TABLE provider_accounts ADD CONSTRAINT real_money_names_its_account
    CHECK (NOT livemode OR account_ref <> '' OR expected_account_ref IS NOT NULL) NOT VALID;

-- A list that cannot be read is not asked for again before then: each call to what is dead takes as long as a call may.
ALTER TABLE account_readings ADD COLUMN let_be_until timestamptz;
GRANT UPDATE (let_be_until) ON account_readings TO onceback_worker;
