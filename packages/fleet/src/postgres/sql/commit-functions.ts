// The one writer, on the server: one call is one transaction, and what is refused is raised, so that
// nothing of the call stays. INVARIANT: sequence, epoch and lease are looked at by the statement that
// changes the row, so a process that was frozen past its lease, or lost the thread, writes nothing.
import { BUDGET_FUNCTIONS } from './budget-functions.ts';

/** Whoever has one of these took back what it and all below it may do. */
export const REVOKED_BY = `('aborted', 'terminated', 'killed')`;

export const COMMIT_FUNCTIONS = `
-- Undoes the call; its code, message and facts are the answer.
CREATE OR REPLACE FUNCTION km_refuse(p_refusal json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'KM001', MESSAGE = p_refusal ->> 'code', DETAIL = p_refusal::text;
END $$;
${BUDGET_FUNCTIONS}
-- The nearest of a chain whose word counts no more.
CREATE OR REPLACE FUNCTION km_revoked(p_chain text[]) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT u.id FROM unnest(p_chain) WITH ORDINALITY u(id, at) JOIN threads t ON t.id = u.id
    WHERE t.killed OR t.status IN ${REVOKED_BY} ORDER BY u.at LIMIT 1
$$;

-- A payload that is not JSON stops neither its thread nor a commit; \`signalPayload\` says the same.
CREATE OR REPLACE FUNCTION km_payload(p_text text, p_number int, p_kind text) RETURNS json LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN p_text::json;
EXCEPTION WHEN data_exception THEN
  RETURN json_build_object('reason',
    format('signal %s (\`%s\`) is damaged: its payload is not JSON', p_number, p_kind));
END $$;

CREATE OR REPLACE FUNCTION km_signals(p_thread text, p_after int) RETURNS json LANGUAGE sql STABLE AS $$
  SELECT json_agg(json_build_object('thread', s.thread, 'number', s.number, 'kind', s.kind,
    'payload', km_payload(s.payload, s.number, s.kind), 'key', s.key, 'by', s.sender, 'ts', s.ts) ORDER BY s.number)
  FROM (SELECT * FROM signals WHERE thread = p_thread AND number > p_after ORDER BY number LIMIT 1000) s
$$;

-- Why a commit did not pass the fence.
CREATE OR REPLACE FUNCTION km_fence(p_thread text, p_seq int, p_epoch int, p_quiet boolean, p_heard int)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  t threads;
  v_detail jsonb;
  v_no json;
BEGIN
  SELECT * INTO t FROM threads WHERE id = p_thread;
  v_detail := jsonb_build_object('thread', p_thread, 'seq', t.seq, 'epoch', t.epoch);
  IF t.id IS NULL THEN
    v_no := json_build_object('code', 'not_found', 'thread', p_thread,
      'message', format('there is no thread \`%s\`', p_thread));
  ELSIF t.epoch <> p_epoch THEN
    v_no := v_detail || jsonb_build_object('code', 'stale_epoch',
      'message', format('thread \`%s\` is held by somebody else now', p_thread));
  ELSIF t.seq <> p_seq THEN
    v_no := v_detail || jsonb_build_object('code', 'conflict', 'expected', p_seq,
      'message', format('thread \`%s\` is at event %s, not %s', p_thread, t.seq, p_seq));
  ELSIF t.lease_until IS NULL OR t.lease_until <= km_now() THEN
    v_no := v_detail || jsonb_build_object('code', 'lease_expired', 'until', t.lease_until,
      'message', format('the lease of thread \`%s\` %s', p_thread,
        CASE WHEN t.lease_until IS NULL THEN 'was given back' ELSE 'ran out' END));
  ELSIF p_quiet AND t.wakes > greatest(t.heard, p_heard) THEN
    v_no := json_build_object('code', 'signalled', 'thread', p_thread,
      'message', format('thread \`%s\` was spoken to meanwhile', p_thread),
      'signals', km_signals(p_thread, greatest(t.heard, p_heard)));
  ELSE
    -- It passes now: somebody changed it in between. Once more.
    RAISE EXCEPTION 'changed meanwhile' USING ERRCODE = '40001';
  END IF;
  PERFORM km_refuse(v_no);
END $$;

-- A number is given once; the same bytes again are the same secret.
CREATE OR REPLACE FUNCTION km_keep(p_thread text, p_secrets jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_number int;
BEGIN
  SELECT g.number INTO v_number FROM jsonb_to_recordset(p_secrets) AS g(number int, sealed text)
    JOIN secrets s ON s.thread = p_thread AND s.number = g.number AND s.sealed <> decode(g.sealed, 'base64')
    LIMIT 1;
  IF FOUND THEN
    PERFORM km_refuse(json_build_object('code', 'conflict', 'thread', p_thread, 'message',
      format('secret %s of thread \`%s\` exists already: somebody else holds the thread', v_number, p_thread)));
  END IF;
  INSERT INTO secrets (thread, number, sealed)
    SELECT p_thread, g.number, decode(g.sealed, 'base64')
    FROM jsonb_to_recordset(p_secrets) AS g(number int, sealed text) ON CONFLICT DO NOTHING;
END $$;

CREATE OR REPLACE FUNCTION km_audit(p_rows jsonb, p_now bigint) RETURNS void LANGUAGE sql AS $$
  INSERT INTO audit (time, surface, caller, subject, operation, target, decision, reason)
    SELECT to_char(to_timestamp(p_now / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      a.surface, a.caller, a.subject, a.operation, a.target, a.decision, a.reason
    FROM jsonb_to_recordset(p_rows) AS a(surface text, caller text, subject text, operation text,
      target text, decision text, reason text)
$$;

-- Row, data, first events and secrets of a thread that has an account. \`p_parent\`: of a root, null.
CREATE OR REPLACE FUNCTION km_bear(p_child jsonb, p_parent threads, p_birth text, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_id text := p_child ->> 'id';
  v_kind text := p_child ->> 'kind';
  v_lease jsonb := p_child -> 'lease';
  v_status text := CASE WHEN p_child -> 'lease' IS NULL THEN 'spawning' ELSE 'running' END;
  v_number bigint;
BEGIN
  INSERT INTO threads (id, parent, root, chain, depth, kind, directive, version, runner, tenant, project,
      items, detached, status, seq, epoch, attempt, owner, lease_until, queued, priority, format, created, updated, title)
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

CREATE OR REPLACE FUNCTION km_create(p_thread jsonb, p_birth text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := km_now();
  v_parent threads;
BEGIN
  PERFORM km_account(p_thread);
  PERFORM km_reserve(ARRAY[p_thread ->> 'id'], p_thread -> 'reserve', v_now);
  PERFORM km_bear(p_thread, v_parent, p_birth, v_now);
END $$;

-- What few commits carry.
CREATE OR REPLACE FUNCTION km_commit_rest(t threads, p_more jsonb, p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_one jsonb;
BEGIN
  IF p_more ? 'children' THEN
    FOR v_one IN SELECT * FROM jsonb_array_elements(p_more -> 'children') LOOP
      PERFORM km_bear(v_one, t, NULL, p_now);
    END LOOP;
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
    FOR v_one IN SELECT * FROM jsonb_array_elements(p_more -> 'tell') LOOP
      PERFORM km_signal(v_one ->> 'thread', v_one ->> 'kind', v_one ->> 'text', v_one ->> 'key',
        v_one ->> 'by', p_now);
    END LOOP;
  END IF;
  IF p_more ? 'secrets' THEN PERFORM km_keep(t.id, p_more -> 'secrets'); END IF;
  IF p_more ? 'audit' THEN PERFORM km_audit(p_more -> 'audit', p_now); END IF;
END $$;

CREATE OR REPLACE FUNCTION km_commit(p_thread text, p_seq int, p_epoch int, p_quiet boolean, p_heard int,
  p_told int, p_types text[], p_turns int[], p_times bigint[], p_texts text[], p_status text, p_cost text,
  p_attempt int, p_release boolean, p_wake bigint, p_moves boolean, p_rest boolean,
  p_more jsonb,
  OUT o_seq int, OUT o_lease_ms bigint, OUT o_signals json, OUT o_revoked text, OUT o_reserved text[],
  OUT o_status text)
-- Lists of one or two ids would be planned anew each time.
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  t threads;
  v_now bigint := km_now();
BEGIN
  IF p_more ? 'tell' THEN
    -- Everybody locks in the same order.
    PERFORM 1 FROM threads WHERE id = p_thread OR id IN
      (SELECT e ->> 'thread' FROM jsonb_array_elements(p_more -> 'tell') e) ORDER BY id FOR UPDATE;
  END IF;
  -- Nobody hears what was not said. What is let go with an unheard signal is queued: nobody is stuck.
  UPDATE threads SET seq = seq + cardinality(p_types), updated = v_now, cost = coalesce(p_cost, cost),
    attempt = coalesce(p_attempt, attempt), items = coalesce(p_more ->> 'items', items), status = coalesce(p_status, status),
    ended = CASE WHEN p_status IS NULL THEN ended WHEN km_ended(p_status) THEN v_now END,
    heard = greatest(heard, least(p_heard, wakes)),
    owner = CASE WHEN p_release THEN NULL ELSE owner END,
    lease_until = CASE WHEN p_release THEN NULL ELSE lease_until END,
    queued = CASE WHEN NOT p_release THEN queued WHEN km_ended(coalesce(p_status, status)) THEN NULL
      WHEN wakes > greatest(heard, p_heard) THEN v_now ELSE v_now + p_wake END
    WHERE id = p_thread AND seq = p_seq AND epoch = p_epoch AND lease_until > km_now()
      AND (NOT p_quiet OR wakes <= greatest(heard, p_heard))
    RETURNING * INTO t;
  IF t.id IS NULL THEN PERFORM km_fence(p_thread, p_seq, p_epoch, p_quiet, p_heard); END IF;
  INSERT INTO thread_events (thread, seq, ts, turn, type, data)
    SELECT t.number, p_seq + at, coalesce(ts, v_now), turn, type, text
    FROM unnest(p_types, p_turns, p_times, p_texts) WITH ORDINALITY e(type, turn, ts, text, at);
  IF p_moves THEN o_reserved := km_budget(t.chain, p_more, v_now); END IF;
  IF p_rest THEN PERFORM km_commit_rest(t, p_more, v_now); END IF;
  o_seq := t.seq;
  o_status := t.status;
  o_lease_ms := coalesce(t.lease_until - v_now, 0);
  IF t.wakes > p_told THEN o_signals := km_signals(p_thread, p_told); END IF;
  IF cardinality(t.chain) > 1 THEN o_revoked := km_revoked(t.chain);
  ELSIF t.killed OR t.status IN ${REVOKED_BY} THEN o_revoked := t.id; END IF;
END $$;
`;
