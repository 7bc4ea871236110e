// Limits of a tree, on the server. INVARIANT: what is used plus what is reserved never passes a thread's
// limit or any ancestor's, however many ask at once: the accounts of the whole chain are locked, the
// root's first, before any of them is looked at. What is refused is told as JSON, as in a file; whoever
// called decides whether it goes without.
import { BUDGET_KINDS } from '@kernmantle/core/store';

const KINDS = BUDGET_KINDS.map((kind) => `'${kind}'`).join(', ');
const each = (make: (at: string) => string): string =>
  BUDGET_KINDS.map((_, index) => make(`[${index + 1}]`)).join(', ');
/** Far above every limit: sums stay there instead of becoming something else. */
const MOST = 2n ** 63n - 1n;

export const BUDGET_FUNCTIONS = `
CREATE OR REPLACE FUNCTION km_add(a numeric[], b numeric[]) RETURNS numeric[] LANGUAGE sql IMMUTABLE
  RETURN ARRAY[${each((at) => `least(a${at} + b${at}, ${MOST})`)}];
CREATE OR REPLACE FUNCTION km_less(a numeric[], b numeric[]) RETURNS numeric[] LANGUAGE sql IMMUTABLE
  RETURN ARRAY[${each((at) => `greatest(a${at} - b${at}, 0)`)}];

-- Counts as numbers; money keeps every digit.
CREATE OR REPLACE FUNCTION km_shown(p_kind int, p_amount numeric) RETURNS json LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN p_kind = ${BUDGET_KINDS.indexOf('spend') + 1} THEN to_json(p_amount::text) ELSE to_json(p_amount) END;

CREATE OR REPLACE FUNCTION km_exceeded(p_kind int, p_thread text, p_current numeric, p_reserved numeric,
  p_standing numeric, p_max numeric, p_requested numeric) RETURNS json LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_kind text := (ARRAY[${KINDS}])[p_kind];
BEGIN
  RETURN json_build_object('code', v_kind || '_exceeded',
    'message', format('the limit \`%s\` of thread \`%s\` does not leave enough', v_kind, p_thread),
    'current', km_shown(p_kind, p_current), 'reserved', km_shown(p_kind, p_reserved),
    'standing', km_shown(p_kind, p_standing), 'max', km_shown(p_kind, p_max),
    'requested', km_shown(p_kind, p_requested), 'limit', v_kind, 'thread', p_thread);
END $$;

CREATE OR REPLACE FUNCTION km_missing(p_key text) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM reservations r JOIN threads t ON t.id = r.thread
      WHERE r.key = p_key AND NOT km_ended(t.status)) THEN
    RETURN json_build_object('code', 'invalid_input', 'key', p_key,
      'message', format('reservation \`%s\` belongs to other threads', p_key));
  END IF;
  RETURN json_build_object('code', 'not_found', 'key', p_key,
    'message', format('there is no open reservation \`%s\`', p_key));
END $$;

-- Open reservations at a thread and below it; \`standing\`: nobody waits for those. With a source: drawn from it.
CREATE OR REPLACE FUNCTION km_open_below(p_root text, p_thread text, p_kind int, p_source text, p_now bigint,
  OUT o_all numeric, OUT o_standing numeric) LANGUAGE sql STABLE AS $$
  SELECT least(coalesce(sum(r.amounts[p_kind]), 0), ${MOST}),
    least(coalesce(sum(r.amounts[p_kind])
      FILTER (WHERE r.standing OR t.owner IS NULL OR t.lease_until <= p_now), 0), ${MOST})
  FROM threads t JOIN reservations r ON r.thread = t.id
  WHERE t.root = p_root AND p_thread = ANY (t.chain) AND (p_source IS NULL OR r.source = p_source)
$$;

-- The nearest thread that has not enough left, and the first kind of it.
CREATE OR REPLACE FUNCTION km_room(p_chain text[], p_threads text[], p_amounts numeric[], p_now bigint)
RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  b budgets;
  v_thread text;
BEGIN
  FOREACH v_thread IN ARRAY p_threads LOOP
    SELECT * INTO b FROM budgets WHERE thread = v_thread;
    FOR k IN 1..${BUDGET_KINDS.length} LOOP
      CONTINUE WHEN b.limits[k] IS NULL OR p_amounts[k] = 0;
      IF b.used[k] + b.reserved[k] + p_amounts[k] > b.limits[k] THEN
        RETURN km_exceeded(k, v_thread, b.used[k] + b.reserved[k], b.reserved[k],
          (SELECT o_standing FROM km_open_below(p_chain[cardinality(p_chain)], v_thread, k, NULL, p_now)),
          b.limits[k], p_amounts[k]);
      END IF;
    END LOOP;
  END LOOP;
  RETURN NULL;
END $$;

-- Where along a chain a reservation is open: the nearest; null where none is.
CREATE OR REPLACE FUNCTION km_find(p_chain text[], p_key text, OUT o_at int, OUT o_amounts numeric[], OUT o_source text)
LANGUAGE sql STABLE AS $$
  SELECT u.at::int, r.amounts, r.source FROM unnest(p_chain) WITH ORDINALITY u(id, at)
    JOIN reservations r ON r.thread = u.id AND r.key = p_key ORDER BY u.at LIMIT 1
$$;

CREATE OR REPLACE FUNCTION km_settle(p_chain text[], p_key text, p_actual numeric[]) RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
  r record;
  v_at int;
  v_left numeric[];
BEGIN
  SELECT * INTO r FROM km_find(p_chain, p_key);
  IF r.o_at IS NULL THEN RETURN km_missing(p_key); END IF;
  DELETE FROM reservations WHERE thread = p_chain[r.o_at] AND key = p_key;
  UPDATE budgets SET used = km_add(used, p_actual), reserved = km_less(reserved, r.o_amounts)
    WHERE thread = ANY (p_chain[r.o_at:]);
  v_left := km_less(r.o_amounts, p_actual);
  -- What is left goes back to where it was drawn from, if that is still open.
  v_at := (km_find(p_chain, r.o_source)).o_at;
  IF v_at IS NOT NULL THEN
    UPDATE reservations SET amounts = km_add(amounts, v_left) WHERE thread = p_chain[v_at] AND key = r.o_source;
    UPDATE budgets SET reserved = km_add(reserved, v_left) WHERE thread = ANY (p_chain[v_at:]);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION km_set_aside(p_chain text[], p_wish jsonb, p_now bigint) RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
  v_key text := p_wish ->> 'key';
  v_amounts numeric[] := p_wish ->> 'amounts';
  v_source text := p_wish ->> 'from';
  v_fresh text[] := p_chain;
  r record;
  v_at int;
  v_left numeric[];
  v_drawn record;
  v_no json;
BEGIN
  SELECT * INTO r FROM km_find(p_chain, v_key);
  IF r.o_at IS NOT NULL THEN
    RETURN json_build_object('code', 'invalid_input', 'key', v_key,
      'message', format('reservation \`%s\` is open already; use another key', v_key));
  END IF;
  IF v_source IS NOT NULL THEN
    SELECT * INTO r FROM km_find(p_chain, v_source);
    v_at := r.o_at;
    v_left := r.o_amounts;
    IF v_at IS NULL THEN
      -- An optional one is left out, wherever its source is open.
      RETURN CASE WHEN (p_wish ->> 'optional')::boolean THEN json_build_object('code', 'not_found')
        ELSE km_missing(v_source) END;
    END IF;
    FOR k IN 1..${BUDGET_KINDS.length} LOOP
      IF v_amounts[k] > v_left[k] THEN
        SELECT * INTO v_drawn
          FROM km_open_below(p_chain[cardinality(p_chain)], p_chain[v_at], k, v_source, p_now);
        RETURN km_exceeded(k, p_chain[v_at], v_drawn.o_all, v_drawn.o_all, v_drawn.o_standing,
          least(v_left[k] + v_drawn.o_all, ${MOST}), v_amounts[k]);
      END IF;
    END LOOP;
    -- What was drawn from is reserved along its chain already: there it only changes its name.
    v_fresh := p_chain[1:v_at - 1];
  END IF;
  v_no := km_room(p_chain, v_fresh, v_amounts, p_now);
  IF v_no IS NOT NULL THEN RETURN v_no; END IF;
  IF v_source IS NOT NULL THEN
    UPDATE reservations SET amounts = km_less(amounts, v_amounts)
      WHERE thread = p_chain[v_at] AND key = v_source;
  END IF;
  UPDATE budgets SET reserved = km_add(reserved, v_amounts) WHERE thread = ANY (v_fresh);
  INSERT INTO reservations (thread, key, amounts, source, standing)
    VALUES (p_chain[1], v_key, v_amounts, v_source, coalesce((p_wish ->> 'standing')::boolean, false));
  RETURN NULL;
END $$;

-- All wishes for reservations of one thread; the keys of what was set aside.
CREATE OR REPLACE FUNCTION km_reserve(p_chain text[], p_wishes jsonb, p_now bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
  v_wish jsonb;
  v_no json;
  v_made text[] := '{}';
BEGIN
  FOR v_wish IN SELECT * FROM jsonb_array_elements(p_wishes) LOOP
    v_no := km_set_aside(p_chain, v_wish, p_now);
    IF v_no IS NULL THEN
      v_made := v_made || (v_wish ->> 'key');
    ELSIF NOT coalesce((v_wish ->> 'optional')::boolean, false)
        OR NOT (v_no ->> 'code' = 'not_found' OR v_no ->> 'code' LIKE '%\\_exceeded') THEN
      PERFORM km_refuse(v_no);
    END IF;
  END LOOP;
  RETURN v_made;
END $$;

CREATE OR REPLACE FUNCTION km_raise(p_thread text, p_to numeric[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_now numeric[];
  v_kind text;
BEGIN
  SELECT limits INTO v_now FROM budgets WHERE thread = p_thread;
  FOR k IN 1..${BUDGET_KINDS.length} LOOP
    CONTINUE WHEN p_to[k] IS NULL OR (v_now[k] IS NOT NULL AND p_to[k] >= v_now[k]);
    v_kind := (ARRAY[${KINDS}])[k];
    PERFORM km_refuse(json_build_object('code', 'invalid_input', 'thread', p_thread, 'limit', v_kind,
      'message', format('the %s limit of thread \`%s\` is %s; %s would not raise it', v_kind, p_thread,
        coalesce(v_now[k]::text, 'none'), p_to[k])));
  END LOOP;
  UPDATE budgets SET limits = ARRAY[${each((at) => `coalesce(p_to${at}, limits${at})`)}]
    WHERE thread = p_thread;
END $$;

-- Ids of children come first. Then, in this order: what was used is charged before more is set aside.
CREATE OR REPLACE FUNCTION km_budget(p_chain text[], p_more jsonb, p_now bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
  v_one jsonb;
  v_no json;
  v_charge numeric[] := p_more ->> 'charge';
  v_made text[] := '{}';
BEGIN
  FOR i IN REVERSE cardinality(p_chain)..1 LOOP
    PERFORM 1 FROM budgets WHERE thread = p_chain[i] FOR UPDATE;
  END LOOP;
  IF p_more ? 'children' THEN
    PERFORM km_account(e) FROM jsonb_array_elements(p_more -> 'children') e;
  END IF;
  IF p_more ? 'settle' THEN
    FOR v_one IN SELECT * FROM jsonb_array_elements(p_more -> 'settle') LOOP
      v_no := km_settle(p_chain, v_one ->> 'key', (v_one ->> 'actual')::numeric[]);
      IF v_no IS NOT NULL THEN PERFORM km_refuse(v_no); END IF;
    END LOOP;
  END IF;
  IF p_more ? 'raise' THEN PERFORM km_raise(p_chain[1], (p_more ->> 'raise')::numeric[]); END IF;
  IF v_charge IS NOT NULL THEN
    v_no := km_room(p_chain, p_chain, v_charge, p_now);
    IF v_no IS NOT NULL THEN PERFORM km_refuse(v_no); END IF;
    UPDATE budgets SET used = km_add(used, v_charge) WHERE thread = ANY (p_chain);
  END IF;
  IF p_more ? 'reserve' THEN v_made := km_reserve(p_chain, p_more -> 'reserve', p_now); END IF;
  IF p_more ? 'children' THEN
    FOR v_one IN SELECT * FROM jsonb_array_elements(p_more -> 'children') LOOP
      v_made := v_made || km_reserve((v_one ->> 'id') || p_chain, v_one -> 'reserve', p_now);
    END LOOP;
  END IF;
  RETURN v_made;
END $$;

-- An id that has an account is never given again.
CREATE OR REPLACE FUNCTION km_account(p_child jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM budgets WHERE thread = p_child ->> 'id') THEN
    PERFORM km_refuse(json_build_object('code', 'thread_exists', 'thread', p_child ->> 'id',
      'message', format('thread \`%s\` exists already', p_child ->> 'id')));
  END IF;
  INSERT INTO budgets (thread, limits) VALUES (p_child ->> 'id', (p_child ->> 'budget')::numeric[]);
END $$;
`;
