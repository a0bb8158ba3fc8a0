-- Settling what only a person can settle, and what follows when money comes back late.

-- After some refusals somebody acted elsewhere: the worker hints itself to read the payment again.
GRANT INSERT ON provider_events TO onceback_worker;
