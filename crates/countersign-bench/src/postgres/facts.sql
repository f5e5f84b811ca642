-- So many facts, each about 200 bytes, all of which pass the three preconditions.
INSERT INTO facts (id, version, status, balance, per_action_max, owner)
    SELECT 'Account::"' || number || '"', 1, 'active', 1000000000000, 500000, 'owner-' || repeat('x', 120)
    FROM generate_series(0, $1::bigint - 1) AS number;
