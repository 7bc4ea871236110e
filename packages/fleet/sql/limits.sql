-- Implements request limits that machines share, and labels of files. These rules enforce a limit:
-- - A request locks the rows of its limits first, in the order of their names. Only the clock of the server counts.
-- - `places` are open requests. A place is lost if its owner did not renew it in time and the connection of the last
--   renewal is closed as well, because a frozen process cannot end a request but stays connected.
-- - `rate_buckets` contain the latest seconds of arrival of requests: at first `SEND_WITHIN_MS` after the entry,
--   then the second of the answer. A second counts for 60 more, so no 60 seconds exceed the limit.
-- - `waiting` are requests without a place. A place that one of them waits for is not given to a later one.

-- Start of the backend of this session. Together with its number it identifies one connection.
CREATE OR REPLACE FUNCTION km_backend_since() RETURNS timestamptz LANGUAGE sql STABLE AS
  'SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())';

CREATE OR REPLACE FUNCTION km_lose_places(p_provider text, p_tenant text, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM places WHERE place IN (
    SELECT p.place FROM places p
    WHERE (p.provider = p_provider OR p.tenant = p_tenant) AND p.until < p_now
      AND NOT EXISTS (
        SELECT 1 FROM pg_stat_get_activity(p.backend) a
        -- The start of a connection of another user cannot be read.
        WHERE a.backend_start = p.backend_since OR a.backend_start IS NULL)
    ORDER BY p.place FOR UPDATE SKIP LOCKED);
END $$;

-- Gives a place to a request (empty texts). Otherwise returns the reached limit and the time until the next try.
-- `never`: the request cannot get a place today.
CREATE OR REPLACE FUNCTION km_enter(
  p_provider text, p_tenant text, p_owner text, p_tokens bigint, p_spend numeric, p_ttl bigint,
  p_send_within bigint,
  OUT got bigint, OUT full_scope text, OUT full_limit text, OUT wait_ms bigint, OUT never boolean,
  OUT used numeric, OUT most numeric)
LANGUAGE plpgsql AS $$
DECLARE
  v_provider text := 'provider:' || p_provider;
  v_tenant text := 'tenant:' || CASE p_tenant WHEN '' THEN '-' ELSE p_tenant END;
  v_waiter text := p_owner || ' ' || v_provider || ' ' || v_tenant;
  v_now bigint;
  v_second bigint;
  v_day bigint;
  v_scopes text[];
  r shared_limits;
  v_before bigint;
  v_ahead bigint;
  v_ahead_tokens numeric;
  v_requests numeric;
  v_tokens numeric;
  v_open numeric;
BEGIN
  got := 0; full_scope := ''; full_limit := ''; wait_ms := 0; never := false; used := 0; most := 0;
  SELECT array_agg(l.scope ORDER BY l.scope) INTO v_scopes FROM (
    SELECT s.scope FROM shared_limits s WHERE s.scope IN (v_provider, v_tenant)
    ORDER BY s.scope FOR UPDATE) l;
  IF v_scopes IS NULL THEN RETURN; END IF;
  v_now := km_now();
  v_second := (v_now + p_send_within) / 1000;
  v_day := v_now / 86400000;
  PERFORM km_lose_places(p_provider, p_tenant, v_now);
  FOR r IN SELECT * FROM shared_limits s WHERE s.scope = ANY (v_scopes) ORDER BY s.scope LOOP
    DELETE FROM waiting w WHERE w.scope = r.scope AND w.until < v_now;
    SELECT w.ticket INTO v_before FROM waiting w WHERE w.scope = r.scope AND w.owner = v_waiter;
    SELECT count(*), coalesce(sum(w.tokens), 0) INTO v_ahead, v_ahead_tokens FROM waiting w
    WHERE w.scope = r.scope AND w.owner <> v_waiter AND (v_before IS NULL OR w.ticket < v_before);
    IF r.concurrent IS NOT NULL THEN
      SELECT count(*) INTO v_open FROM places p
      WHERE CASE WHEN r.scope = v_provider THEN p.provider = p_provider ELSE p.tenant = p_tenant END;
      IF v_open + v_ahead >= r.concurrent THEN
        full_limit := 'concurrent'; used := v_open; most := r.concurrent;
        wait_ms := least(25 + 25 * v_ahead, 1000);
        never := r.concurrent = 0;
      END IF;
    END IF;
    IF full_limit = '' AND (r.requests_per_minute IS NOT NULL OR r.tokens_per_minute IS NOT NULL) THEN
      DELETE FROM rate_buckets b WHERE b.scope = r.scope AND (b.second + 61) * 1000 <= v_now;
      SELECT coalesce(sum(b.requests), 0), coalesce(sum(b.tokens), 0),
        (coalesce(min(b.second) FILTER (WHERE b.requests > 0 OR b.tokens > 0), 0) + 61) * 1000 - v_now
      INTO v_requests, v_tokens, wait_ms FROM rate_buckets b WHERE b.scope = r.scope;
      wait_ms := least(greatest(wait_ms, 25) + 25 * v_ahead, 2000);
      IF v_requests + v_ahead >= r.requests_per_minute THEN
        full_limit := 'requests_per_minute'; used := v_requests; most := r.requests_per_minute;
        never := r.requests_per_minute = 0;
      ELSIF v_tokens + v_ahead_tokens + p_tokens > r.tokens_per_minute THEN
        full_limit := 'tokens_per_minute'; used := v_tokens; most := r.tokens_per_minute;
        never := p_tokens > r.tokens_per_minute;
      END IF;
    END IF;
    IF full_limit = '' AND r.spend_per_day IS NOT NULL THEN
      SELECT coalesce(sum(d.spent), 0) INTO used FROM day_spend d
      WHERE d.scope = r.scope AND d.day = v_day;
      IF p_spend IS NULL OR used + p_spend > r.spend_per_day THEN
        SELECT coalesce(sum(p.spend), 0) INTO v_open FROM places p
        WHERE p.day = v_day
          AND CASE WHEN r.scope = v_provider THEN p.provider = p_provider ELSE p.tenant = p_tenant END;
        full_limit := 'spend_per_day'; most := r.spend_per_day; wait_ms := 250;
        never := p_spend IS NULL OR used - v_open + p_spend > r.spend_per_day;
      END IF;
    END IF;
    IF full_limit <> '' THEN
      full_scope := r.scope;
      IF never THEN
        DELETE FROM waiting w WHERE w.scope = r.scope AND w.owner = v_waiter;
      ELSE
        INSERT INTO waiting (scope, owner, tokens, until)
        VALUES (r.scope, v_waiter, p_tokens, v_now + 2 * wait_ms + 1000)
        ON CONFLICT (scope, owner) DO UPDATE SET tokens = p_tokens, until = excluded.until;
      END IF;
      RETURN;
    END IF;
    DELETE FROM waiting w WHERE w.scope = r.scope AND w.owner = v_waiter;
  END LOOP;
  used := 0; most := 0; wait_ms := 0;
  INSERT INTO places (provider, tenant, owner, tokens, spend, second, day, until, backend, backend_since)
  VALUES (p_provider, p_tenant, p_owner, p_tokens, coalesce(p_spend, 0), v_second, v_day, v_now + p_ttl,
    pg_backend_pid(), km_backend_since())
  RETURNING place INTO got;
  FOR i IN 1 .. array_length(v_scopes, 1) LOOP
    INSERT INTO rate_buckets (scope, second, requests, tokens)
    VALUES (v_scopes[i], v_second, 1, p_tokens)
    ON CONFLICT (scope, second) DO UPDATE
    SET requests = rate_buckets.requests + 1, tokens = rate_buckets.tokens + p_tokens;
  END LOOP;
  FOR i IN 1 .. array_length(v_scopes, 1) LOOP
    INSERT INTO day_spend (scope, day, spent) VALUES (v_scopes[i], v_day, coalesce(p_spend, 0))
    ON CONFLICT (scope, day) DO UPDATE SET spent = day_spend.spent + excluded.spent;
  END LOOP;
END $$;

-- Ends a request. Its answer proves that it arrived. The rows are locked in the order of km_enter.
CREATE OR REPLACE FUNCTION km_exit(p_place bigint, p_tokens bigint, p_spend numeric)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v places;
  v_scope text;
  v_second bigint;
BEGIN
  DELETE FROM places p WHERE p.place = p_place RETURNING * INTO v;
  IF NOT FOUND THEN RETURN; END IF;
  FOR v_scope IN SELECT s.scope FROM shared_limits s
    WHERE s.scope IN ('provider:' || v.provider,
      'tenant:' || CASE v.tenant WHEN '' THEN '-' ELSE v.tenant END) ORDER BY s.scope
  LOOP
    v_second := least(km_now() / 1000, v.second);
    IF v_second < v.second THEN
      INSERT INTO rate_buckets (scope, second, requests, tokens)
      VALUES (v_scope, v_second, 1, p_tokens)
      ON CONFLICT (scope, second) DO UPDATE
      SET requests = rate_buckets.requests + 1, tokens = rate_buckets.tokens + p_tokens;
      UPDATE rate_buckets b SET requests = b.requests - 1, tokens = b.tokens - v.tokens
      WHERE b.scope = v_scope AND b.second = v.second;
    ELSE
      UPDATE rate_buckets b SET tokens = b.tokens + p_tokens - v.tokens
      WHERE b.scope = v_scope AND b.second = v.second;
    END IF;
  END LOOP;
  FOR v_scope IN SELECT s.scope FROM shared_limits s
    WHERE s.scope IN ('provider:' || v.provider,
      'tenant:' || CASE v.tenant WHEN '' THEN '-' ELSE v.tenant END) ORDER BY s.scope
  LOOP
    UPDATE day_spend d SET spent = d.spent + p_spend - v.spend
    WHERE d.scope = v_scope AND d.day = v.day;
  END LOOP;
END $$;

-- Renews places, over the present connection of their owner.
CREATE OR REPLACE FUNCTION km_stay(p_places bigint[], p_ttl bigint) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY WITH mine AS (
    SELECT p.place FROM places p WHERE p.place = ANY (p_places) ORDER BY p.place FOR UPDATE)
  UPDATE places p SET until = km_now() + p_ttl, backend = pg_backend_pid(),
    backend_since = km_backend_since()
  FROM mine WHERE p.place = mine.place RETURNING p.place;
END $$;

-- Numbers the rows of a project in the order in which readers see them: a second writer waits for the first.
CREATE OR REPLACE FUNCTION km_add_labels(p_project text, p_rows text[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_last bigint;
BEGIN
  INSERT INTO label_heads (project, last) VALUES (p_project, cardinality(p_rows))
  ON CONFLICT (project) DO UPDATE SET last = label_heads.last + cardinality(p_rows)
  RETURNING last INTO v_last;
  INSERT INTO label_rows (project, number, text)
  SELECT p_project, v_last - cardinality(p_rows) + n, t
  FROM unnest(p_rows) WITH ORDINALITY AS rows (t, n);
  RETURN v_last;
END $$;
