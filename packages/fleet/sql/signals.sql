-- Milliseconds since 1970. All times of the registry are the server's.
CREATE OR REPLACE FUNCTION km_now() RETURNS bigint LANGUAGE sql VOLATILE
  AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- A time that somebody named when his clock said p_said, on the server's clock: as it is where the two
-- agree, else as far from now as he meant it.
CREATE OR REPLACE FUNCTION km_when(p_time bigint, p_said bigint) RETURNS bigint LANGUAGE sql VOLATILE
  AS $$ SELECT CASE WHEN abs(km_now() - p_said) <= km_agree_ms() THEN p_time ELSE p_time + km_now() - p_said END $$;

-- One word to the channel of the registry: see feed.ts. Whoever may connect to a database may speak on
-- every channel and listen to it: so its name is known to those alone who may read the registry.
CREATE OR REPLACE FUNCTION km_tell(p_word text) RETURNS void LANGUAGE sql VOLATILE
  AS $$ SELECT pg_notify('km_' || coalesce((SELECT value FROM about WHERE name = 'channel'),
    current_schema()), left(p_word, 7000)) $$;
-- The same key again is the same signal. No number: nobody is there, or it has ended.
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
