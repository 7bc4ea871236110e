-- Compares and writes. These functions have no rules: `decide` makes every decision from the rows that
-- `km_view` returns, and `km_write` writes it if these rows are unchanged. Otherwise `km_write` writes nothing
-- and returns the current rows. INVARIANT: accounts are locked before threads, the root first, and threads
-- in the order of their ids.

-- Returns the nearest thread of a chain that revokes the rights of the threads below it.
CREATE OR REPLACE FUNCTION km_revoked(p_chain text[]) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT u.id FROM unnest(p_chain) WITH ORDINALITY u(id, at) JOIN threads t ON t.id = u.id
    WHERE t.killed OR km_revokes(t.status) ORDER BY u.at LIMIT 1
$$;

CREATE OR REPLACE FUNCTION km_signals(p_thread text, p_after int) RETURNS json LANGUAGE sql STABLE AS $$
  SELECT json_agg(json_build_object('thread', s.thread, 'number', s.number, 'kind', s.kind,
    'payload', s.payload, 'key', s.key, 'by', s.sender, 'ts', s.ts) ORDER BY s.number)
  FROM (SELECT * FROM signals WHERE thread = p_thread AND number > p_after ORDER BY number LIMIT 1000) s
$$;

-- Returns the number of the first secret that is stored with other bytes.
CREATE OR REPLACE FUNCTION km_secret(p_thread text, p_secrets jsonb) RETURNS int LANGUAGE sql STABLE AS $$
  SELECT min(s.number) FROM jsonb_to_recordset(p_secrets) AS g(number int, sealed text)
    JOIN secrets s ON s.thread = p_thread AND s.number = g.number AND s.sealed <> decode(g.sealed, 'base64')
$$;

CREATE OR REPLACE FUNCTION km_keep(p_thread text, p_secrets jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO secrets (thread, number, sealed)
    SELECT p_thread, g.number, decode(g.sealed, 'base64')
    FROM jsonb_to_recordset(p_secrets) AS g(number int, sealed text) ON CONFLICT DO NOTHING
$$;

-- Returns the first child whose id has an account. Accounts stay, so an id is never used twice.
CREATE OR REPLACE FUNCTION km_taken(p_children jsonb) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT b.thread FROM jsonb_array_elements(p_children) WITH ORDINALITY c(child, at)
    JOIN budgets b ON b.thread = c.child ->> 'id' ORDER BY c.at LIMIT 1
$$;

-- Returns the rows that a decision about a commit needs. NULL: the thread does not exist.
CREATE OR REPLACE FUNCTION km_view(p_thread text, p_more jsonb) RETURNS json LANGUAGE sql STABLE AS $$
  SELECT json_build_object('seq', t.seq, 'epoch', t.epoch, 'status', t.status, 'wakes', t.wakes,
    'acknowledged', t.acknowledged, 'lease_ms', t.lease_until - km_now(), 'chain', t.chain,
    'accounts', (SELECT json_agg(json_build_object('thread', b.thread, 'version', b.version, 'account', b.account::text)
        ORDER BY u.at)
      FROM unnest(t.chain) WITH ORDINALITY u(id, at) JOIN budgets b ON b.thread = u.id),
    'taken', km_taken(p_more -> 'children'), 'secret', km_secret(t.id, p_more -> 'secrets'))
  FROM threads t WHERE t.id = p_thread
$$;

CREATE OR REPLACE FUNCTION km_audit(p_rows jsonb, p_now bigint) RETURNS void LANGUAGE sql AS $$
  INSERT INTO audit (time, surface, caller, subject, operation, target, decision, reason)
    SELECT to_char(to_timestamp(p_now / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      a.surface, a.caller, a.subject, a.operation, a.target, a.decision, a.reason
    FROM jsonb_to_recordset(p_rows) AS a(surface text, caller text, subject text, operation text,
      target text, decision text, reason text)
$$;

-- Inserts account, row, data, first events and secrets of a new thread. `p_parent` is empty for a root.
CREATE OR REPLACE FUNCTION km_insert(p_child jsonb, p_parent threads, p_birth text, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_id text := p_child ->> 'id';
  v_kind text := p_child ->> 'kind';
  v_lease jsonb := p_child -> 'lease';
  v_status text := CASE WHEN p_child -> 'lease' IS NULL THEN 'spawning' ELSE 'running' END;
  v_number bigint;
BEGIN
  INSERT INTO budgets (thread, account) VALUES (v_id, (p_child ->> 'account')::jsonb);
  INSERT INTO threads (id, parent, root, chain, depth, kind, directive, version, runner, tenant, project,
      items, detached, status, seq, epoch, attempt, owner, lease_until, queued, priority, format, created, updated,
      title)
    VALUES (v_id, p_parent.id, coalesce(p_parent.root, v_id), v_id || coalesce(p_parent.chain, '{}'),
      coalesce(p_parent.depth + CASE WHEN v_kind = 'hook' THEN 0 ELSE 1 END, 0), v_kind,
      p_child ->> 'directive', p_child ->> 'version', p_child ->> 'runner',
      CASE WHEN p_parent.id IS NULL THEN p_child ->> 'tenant' ELSE p_parent.tenant END,
      p_child ->> 'project', coalesce(p_child ->> 'items', p_parent.items), (p_child ->> 'detached')::boolean, v_status,
      jsonb_array_length(p_child -> 'events') + 1, CASE WHEN v_lease IS NULL THEN 0 ELSE 1 END, 1,
      v_lease ->> 'owner', p_now + (v_lease ->> 'ttl')::bigint,
      CASE WHEN v_lease IS NULL
        THEN coalesce(km_when((p_child ->> 'after')::bigint, (p_child ->> 'said')::bigint), p_now) END,
      coalesce((p_child ->> 'priority')::int, 0), (p_child ->> 'format')::int, p_now, p_now, p_child ->> 'title')
    RETURNING number INTO v_number;
  INSERT INTO thread_data (thread, limits, inputs, birth)
    VALUES (v_id, p_child ->> 'limits', p_child ->> 'inputs', p_birth);
  IF p_child ? 'search' THEN
    INSERT INTO search_texts (thread, first) VALUES (v_id, p_child ->> 'search');
  END IF;
  INSERT INTO thread_events (thread, seq, ts, turn, type, data)
    VALUES (v_number, 1, p_now, 0, 'status', format('{"status":"%s"}', v_status));
  INSERT INTO thread_events (thread, seq, ts, turn, type, data)
    SELECT v_number, at + 1, coalesce((e ->> 'ts')::bigint, p_now), (e ->> 'turn')::int, e ->> 'type', e ->> 'text'
    FROM jsonb_array_elements(p_child -> 'events') WITH ORDINALITY x(e, at);
  IF p_child ? 'secrets' THEN PERFORM km_keep(v_id, p_child -> 'secrets'); END IF;
END $$;

-- Creates a root thread. False: the id is in use.
CREATE OR REPLACE FUNCTION km_create(p_thread jsonb, p_birth text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_parent threads;
BEGIN
  IF km_taken(jsonb_build_array(p_thread)) IS NOT NULL THEN RETURN false; END IF;
  PERFORM km_insert(p_thread, v_parent, p_birth, km_now());
  RETURN true;
END $$;

-- Writes the parts that few commits have.
CREATE OR REPLACE FUNCTION km_write_rest(t threads, p_more jsonb, p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF p_more ? 'children' THEN
    PERFORM km_insert(child, t, NULL, p_now) FROM jsonb_array_elements(p_more -> 'children') child;
  END IF;
  IF p_more ?| '{result,limits}' THEN
    UPDATE thread_data SET result = coalesce(p_more ->> 'result', result),
      limits = coalesce(p_more ->> 'limits', limits) WHERE thread = t.id;
  END IF;
  IF p_more ? 'search' THEN
    INSERT INTO search_texts (thread, first, last) VALUES (t.id, '', p_more ->> 'search')
      ON CONFLICT (thread) DO UPDATE SET last = excluded.last;
  END IF;
  IF p_more ? 'tell' THEN
    PERFORM km_signal(s ->> 'thread', s ->> 'kind', s ->> 'text', s ->> 'key', s ->> 'by', p_now)
      FROM jsonb_array_elements(p_more -> 'tell') s;
  END IF;
  IF p_more ? 'secrets' THEN PERFORM km_keep(t.id, p_more -> 'secrets'); END IF;
  IF p_more ? 'audit' THEN PERFORM km_audit(p_more -> 'audit', p_now); END IF;
END $$;

-- Writes a commit. `p_chain` and `p_versions`: accounts of the decision, the root first (NULL: none). `p_wakes`:
-- number of signals of the decision (NULL: any). `o_view`: the commit was not written. The rows in `o_view` stay
-- locked until the transaction ends, so a second call in the transaction does not fail because of them.
CREATE OR REPLACE FUNCTION km_write(p_thread text, p_seq int, p_epoch int, p_wakes int, p_chain text[],
  p_versions int[], p_types text[], p_turns int[], p_times bigint[], p_texts text[], p_told int, p_acknowledged int,
  p_status text, p_cost text, p_attempt int, p_release boolean, p_queue_in bigint, p_more jsonb,
  OUT o_view json, OUT o_lease_ms bigint, OUT o_wakes int, OUT o_signals json, OUT o_revoked text)
-- A list of one or two ids would be planned anew each time.
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  t threads;
  v_now bigint := km_now();
  v_versions int[];
BEGIN
  IF p_chain IS NOT NULL THEN
    SELECT array_agg(b.version) INTO v_versions FROM (SELECT version FROM budgets WHERE thread = ANY (p_chain)
      ORDER BY array_position(p_chain, thread) FOR UPDATE) b;
    IF v_versions IS DISTINCT FROM p_versions THEN o_view := km_view(p_thread, p_more); RETURN; END IF;
  END IF;
  IF p_more ?| '{children,secrets,tell}' THEN
    IF km_taken(p_more -> 'children') IS NOT NULL OR km_secret(p_thread, p_more -> 'secrets') IS NOT NULL THEN
      o_view := km_view(p_thread, p_more);
      RETURN;
    END IF;
    PERFORM 1 FROM threads WHERE id = p_thread OR id IN
      (SELECT s ->> 'thread' FROM jsonb_array_elements(p_more -> 'tell') s) ORDER BY id FOR UPDATE;
  END IF;
  UPDATE threads SET seq = seq + cardinality(p_types), updated = v_now, cost = coalesce(p_cost, cost),
    attempt = coalesce(p_attempt, attempt), items = coalesce(p_more ->> 'items', items),
    status = coalesce(p_status, status),
    ended = CASE WHEN p_status IS NULL THEN ended WHEN km_ended(p_status) THEN v_now END, acknowledged = p_acknowledged,
    owner = CASE WHEN p_release THEN NULL ELSE owner END,
    lease_until = CASE WHEN p_release THEN NULL ELSE lease_until END,
    queued = CASE WHEN p_release THEN v_now + p_queue_in ELSE queued END
    WHERE id = p_thread AND seq = p_seq AND epoch = p_epoch AND lease_until > km_now()
      AND (p_wakes IS NULL OR wakes = p_wakes)
    RETURNING * INTO t;
  IF t.id IS NULL THEN
    -- Only a new signal allows another try. Any other lock would hide a lost thread from a sweep.
    PERFORM 1 FROM threads WHERE id = p_thread AND seq = p_seq AND epoch = p_epoch AND lease_until > km_now()
      FOR NO KEY UPDATE;
    o_view := km_view(p_thread, p_more);
    RETURN;
  END IF;
  INSERT INTO thread_events (thread, seq, ts, turn, type, data)
    SELECT t.number, p_seq + at, coalesce(ts, v_now), turn, type, text
    FROM unnest(p_types, p_turns, p_times, p_texts) WITH ORDINALITY e(type, turn, ts, text, at);
  IF p_chain IS NOT NULL THEN
    UPDATE budgets SET account = (p_more -> 'accounts' ->> thread)::jsonb, version = version + 1
      WHERE thread = ANY (p_chain) AND p_more -> 'accounts' ? thread;
  END IF;
  IF p_more ?| '{children,result,limits,search,tell,secrets,audit}' THEN
    PERFORM km_write_rest(t, p_more, v_now);
  END IF;
  o_lease_ms := coalesce(t.lease_until - v_now, 0);
  o_wakes := t.wakes;
  IF t.wakes > p_told THEN o_signals := km_signals(p_thread, p_told); END IF;
  IF cardinality(t.chain) > 1 THEN o_revoked := km_revoked(t.chain);
  ELSIF t.killed OR km_revokes(t.status) THEN o_revoked := t.id; END IF;
END $$;
