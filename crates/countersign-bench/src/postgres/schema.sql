-- What the gate does for one action, written for PostgreSQL as well as we know how: current facts, an idempotency key and a
-- ledger record in one SERIALIZABLE transaction, inside one function, so that an action is one round trip.

-- Room on each page keeps updates heap-only: no index is touched, and fewer pages conflict.
CREATE TABLE facts (
    id             text PRIMARY KEY,
    version        bigint NOT NULL,
    status         text   NOT NULL,
    balance        bigint NOT NULL,
    per_action_max bigint NOT NULL,
    owner          text   NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE idempotency (
    key     bytea PRIMARY KEY,
    verdict text NOT NULL
);

CREATE TABLE ledger (
    position bigint GENERATED ALWAYS AS IDENTITY (CACHE 32) PRIMARY KEY,
    fact     text   NOT NULL,
    version  bigint NOT NULL,
    verdict  text   NOT NULL,
    record   bytea  NOT NULL
);

CREATE TABLE chained_ledger (
    position bigint PRIMARY KEY,
    fact     text   NOT NULL,
    version  bigint NOT NULL,
    verdict  text   NOT NULL,
    record   bytea  NOT NULL,
    hash     bytea  NOT NULL
);

CREATE TABLE ledger_head (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    position bigint  NOT NULL,
    hash     bytea   NOT NULL
) WITH (fillfactor = 10);

INSERT INTO ledger_head (position, hash) VALUES (0, sha256(''));

-- Checks the three preconditions on the facts of this transaction and, if they hold, applies the effect. The verdict and
-- the fact's version after it are what the ledger records.
CREATE FUNCTION decide_and_apply(fact_id text, amount bigint, OUT verdict text, OUT new_version bigint) AS $$
DECLARE
    fact facts%ROWTYPE;
BEGIN
    SELECT * INTO fact FROM facts WHERE id = fact_id;
    IF NOT FOUND THEN
        verdict := 'rejected';
        new_version := 0;
    ELSIF fact.status = 'active' AND fact.balance >= amount AND amount <= fact.per_action_max THEN
        verdict := 'committed';
        new_version := fact.version + 1;
        UPDATE facts SET balance = fact.balance - amount, version = new_version WHERE id = fact_id;
    ELSE
        verdict := 'rejected';
        new_version := fact.version;
    END IF;
END
$$ LANGUAGE plpgsql;

CREATE FUNCTION act(fact_id text, amount bigint, action_key bytea, action_record bytea) RETURNS text AS $$
DECLARE
    decision record;
BEGIN
    decision := decide_and_apply(fact_id, amount);
    INSERT INTO idempotency (key, verdict) VALUES (action_key, decision.verdict) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the key % was used before', action_key;
    END IF;
    INSERT INTO ledger (fact, version, verdict, record)
        VALUES (fact_id, decision.new_version, decision.verdict, action_record);
    RETURN decision.verdict;
END
$$ LANGUAGE plpgsql;

-- The same, and each entry holds the hash of all before it: every action now has to pass through the one head row.
CREATE FUNCTION act_chained(fact_id text, amount bigint, action_key bytea, action_record bytea) RETURNS text AS $$
DECLARE
    decision record;
    head     ledger_head%ROWTYPE;
    new_hash bytea;
BEGIN
    -- Taking the head first makes the losers of a race fail before they have done any work.
    SELECT * INTO head FROM ledger_head FOR UPDATE;
    new_hash := sha256(head.hash || action_record);
    decision := decide_and_apply(fact_id, amount);
    INSERT INTO idempotency (key, verdict) VALUES (action_key, decision.verdict) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the key % was used before', action_key;
    END IF;
    INSERT INTO chained_ledger (position, fact, version, verdict, record, hash)
        VALUES (head.position + 1, fact_id, decision.new_version, decision.verdict, action_record, new_hash);
    UPDATE ledger_head SET position = head.position + 1, hash = new_hash;
    RETURN decision.verdict;
END
$$ LANGUAGE plpgsql;
