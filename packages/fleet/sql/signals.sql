-- Implements the time and the channel of the registry, and signals.

-- Returns milliseconds since 1970. All times of the registry are on the clock of the server.
CREATE OR REPLACE FUNCTION km_now() RETURNS bigint LANGUAGE sql VOLATILE
  AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- Converts a time of a caller, whose clock shows `p_said`, to the clock of the server. If the clocks differ, the
-- distance from now is kept.
CREATE OR REPLACE FUNCTION km_when(p_time bigint, p_said bigint) RETURNS bigint LANGUAGE sql VOLATILE
  AS $$ SELECT CASE WHEN abs(km_now() - p_said) <= km_agree_ms() THEN p_time ELSE p_time + km_now() - p_said END $$;

-- Sends one message to the channel of the registry (feed.ts). Every user of a database can use every channel, so
-- only users who can read the registry know the name of this one.
CREATE OR REPLACE FUNCTION km_tell(p_word text) RETURNS void LANGUAGE sql VOLATILE
  AS $$ SELECT pg_notify('km_' || coalesce((SELECT value FROM about WHERE name = 'channel'),
    current_schema()), left(p_word, 7000)) $$;

-- Sends a signal once for each key. Without a number, the thread does not exist (no status) or has ended.
CREATE OR REPLACE FUNCTION km_signal(p_thread text, p_kind text, p_payload text, p_key text, p_by text,
  p_now bigint, OUT o_number int, OUT o_status text) LANGUAGE plpgsql AS $$
BEGIN
  SELECT status INTO o_status FROM threads WHERE id = p_thread FOR UPDATE;
  IF o_status IS NULL THEN RETURN; END IF;
  SELECT number INTO o_number FROM signals WHERE thread = p_thread AND key = p_key;
  IF o_number IS NOT NULL OR km_ended(o_status) THEN RETURN; END IF;
  UPDATE threads SET wakes = wakes + 1, killed = killed OR p_kind = 'kill',
    queued = CASE WHEN owner IS NULL THEN least(coalesce(queued, p_now), p_now) ELSE queued END
    WHERE id = p_thread RETURNING wakes INTO o_number;
  INSERT INTO signals (thread, number, kind, payload, key, sender, ts)
    VALUES (p_thread, o_number, p_kind, p_payload, p_key, p_by, p_now);
  PERFORM km_tell('s ' || p_thread || ' ' || o_number || ' ' || p_kind);
END $$;
