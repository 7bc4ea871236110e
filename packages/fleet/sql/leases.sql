-- Implements leases, and the jobs of the queue that follow from them. INVARIANT: rows of threads are always locked
-- in the order of their ids, and before the jobs. `km_take` and `km_sweep` never wait: they skip a locked row.

-- Claims the lease of one thread. `o_refused`: not_found, store_newer, thread_ended or lease_held, with columns of
-- the thread. After the claim its journal has the format of the new owner. `o_dropped`: its jobs, which the
-- caller drops in the same transaction, in the queue of format `o_format`.
CREATE OR REPLACE FUNCTION km_claim(p_thread text, p_owner text, p_ttl bigint, p_max bigint,
  p_force boolean, p_reopen boolean, p_gone text[], p_format int,
  OUT o_refused text, OUT o_status text, OUT o_owner text, OUT o_until bigint, OUT o_tenant text,
  OUT o_project text, OUT o_format int, OUT o_dropped uuid[]) LANGUAGE plpgsql AS $$
DECLARE
  r threads%ROWTYPE;
  v_now bigint;
BEGIN
  SELECT * INTO r FROM threads WHERE id = p_thread FOR UPDATE;
  v_now := km_now();
  IF NOT FOUND THEN o_refused := 'not_found'; RETURN; END IF;
  o_status := r.status; o_owner := r.owner; o_until := r.lease_until; o_format := r.format;
  IF r.format > p_format THEN o_refused := 'store_newer'; RETURN; END IF;
  IF NOT p_reopen AND km_ended(r.status) THEN o_refused := 'thread_ended'; RETURN; END IF;
  IF NOT p_force AND r.owner IS NOT NULL AND r.owner <> p_owner AND r.lease_until > v_now
    AND r.lease_until <= v_now + p_max AND r.owner <> ALL (p_gone)
  THEN o_refused := 'lease_held'; RETURN; END IF;
  UPDATE threads SET epoch = epoch + 1, owner = p_owner, lease_until = v_now + least(p_ttl, p_max),
    queued = NULL, job = NULL, work = NULL, format = p_format WHERE id = p_thread;
  o_tenant := r.tenant; o_project := r.project;
  o_dropped := array_remove(ARRAY[r.job, r.work], NULL);
END $$;

-- Claims the threads of fetched jobs. 'taken'; 'drop': the job is not needed; 'back': the thread is due later
-- (`o_at`), or another transaction has locked its row. A thread of an older format loses its job, because the
-- queue of that job has the older format too.
CREATE OR REPLACE FUNCTION km_take(p_threads text[], p_jobs uuid[], p_owner text, p_ttl bigint,
  p_format int)
  RETURNS TABLE (o_thread text, o_job uuid, o_verdict text, o_at bigint, o_priority int)
  LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := km_now();
BEGIN
  RETURN QUERY WITH given AS (
    SELECT DISTINCT ON (g.id) g.id, g.job FROM unnest(p_threads, p_jobs) AS g(id, job) ORDER BY g.id
  ), locked AS (
    SELECT t.id, t.status, t.owner, t.queued, t.priority, t.format FROM threads t
      WHERE t.id IN (SELECT g.id FROM given g) ORDER BY t.id FOR UPDATE SKIP LOCKED
  ), free AS (
    SELECT l.id FROM locked l WHERE l.owner IS NULL AND l.queued <= v_now AND NOT km_ended(l.status)
      AND l.format <= p_format
  ), taken AS (
    UPDATE threads t SET epoch = t.epoch + 1, owner = p_owner, lease_until = v_now + p_ttl,
      queued = NULL, job = NULL, work = CASE WHEN t.format = p_format THEN g.job END, format = p_format
      FROM free f JOIN given g ON g.id = f.id WHERE t.id = f.id RETURNING t.id
  )
  SELECT n.id, n.job, CASE
      WHEN k.id IS NOT NULL AND g.job = n.job THEN 'taken'
      WHEN k.id IS NOT NULL THEN 'drop'
      WHEN l.id IS NULL AND s.id IS NOT NULL THEN 'back'
      WHEN l.owner IS NULL AND l.queued > v_now AND NOT km_ended(l.status) AND l.format <= p_format
        THEN 'back'
      ELSE 'drop' END, l.queued, s.priority
    FROM unnest(p_threads, p_jobs) AS n(id, job) LEFT JOIN threads s ON s.id = n.id
    LEFT JOIN given g ON g.id = n.id LEFT JOIN locked l ON l.id = n.id LEFT JOIN taken k ON k.id = n.id
    ORDER BY s.priority DESC, l.queued, n.id;
END $$;

-- Renews all leases of a process. A lease that is missing in the answer is lost.
CREATE OR REPLACE FUNCTION km_renew(p_threads text[], p_epochs int[], p_ttl bigint)
  RETURNS TABLE (o_thread text, o_wakes int, o_tenant text, o_project text, o_work uuid)
  LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM threads WHERE id = ANY (p_threads) ORDER BY id FOR NO KEY UPDATE;
  RETURN QUERY UPDATE threads t SET lease_until = km_now() + p_ttl
    FROM unnest(p_threads, p_epochs) AS n(id, epoch)
    WHERE t.id = n.id AND t.epoch = n.epoch AND t.owner IS NOT NULL
    RETURNING t.id, t.wakes, t.tenant, t.project, t.work;
END $$;

-- Releases a lease. The thread is queued if the caller asks for it, or if it has a signal that it did not
-- acknowledge. False: the lease was already gone.
CREATE OR REPLACE FUNCTION km_release(p_thread text, p_epoch int, p_again boolean, p_delay bigint)
  RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE threads SET owner = NULL, lease_until = NULL, queued = CASE
      WHEN km_ended(status) THEN NULL WHEN p_again THEN km_now() + p_delay
      WHEN wakes > acknowledged THEN km_now() END
    WHERE id = p_thread AND epoch = p_epoch AND owner IS NOT NULL;
  RETURN FOUND;
END $$;

-- Finds threads whose lease has expired, and running threads that are neither leased nor queued.
CREATE OR REPLACE FUNCTION km_lost(p_max bigint, p_gone text[])
  RETURNS TABLE (o_thread text, o_epoch int, o_seq int, o_ended boolean) LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := km_now();
BEGIN
  RETURN QUERY SELECT t.id, t.epoch, t.seq, km_ended(t.status) FROM threads t
      WHERE t.owner IS NOT NULL
      AND (t.lease_until <= v_now OR t.lease_until > v_now + p_max OR t.owner = ANY (p_gone))
    UNION ALL SELECT t.id, t.epoch, t.seq, false FROM threads t
      WHERE t.owner IS NULL AND t.queued IS NULL AND km_at_work(t.status)
      AND t.updated <= v_now - 60000;
END $$;

-- Interrupts lost threads that are running, and queues the others. A thread that has another epoch, or whose owner
-- renewed the lease after `km_lost`, is not changed.
CREATE OR REPLACE FUNCTION km_sweep(p_threads text[], p_epochs int[], p_max bigint, p_gone text[])
  RETURNS TABLE (o_thread text, o_seq int, o_interrupted boolean) LANGUAGE plpgsql AS $$
DECLARE
  r record;
  v_cause text;
  v_now bigint := km_now();
BEGIN
  FOR r IN SELECT t.id, t.number, t.seq, t.owner, km_at_work(t.status) AS work FROM threads t
    JOIN unnest(p_threads, p_epochs) AS n(id, epoch) ON t.id = n.id AND t.epoch = n.epoch
    WHERE NOT km_ended(t.status) AND (t.owner IS NULL AND t.queued IS NULL OR t.owner IS NOT NULL
      AND (t.lease_until <= v_now OR t.lease_until > v_now + p_max OR t.owner = ANY (p_gone)))
    ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
  LOOP
    v_cause := CASE WHEN r.owner IS NULL OR r.owner = ANY (p_gone) THEN 'process_lost' ELSE 'lease_expired' END;
    UPDATE threads SET epoch = epoch + 1, owner = NULL, lease_until = NULL, queued = v_now,
      status = CASE WHEN r.work THEN 'interrupted' ELSE status END,
      seq = CASE WHEN r.work THEN seq + 1 ELSE seq END,
      updated = CASE WHEN r.work THEN v_now ELSE updated END WHERE id = r.id;
    IF r.work THEN
      INSERT INTO thread_events (thread, seq, ts, turn, type, data)
        VALUES (r.number, r.seq + 1, v_now, 0, 'status', json_strip_nulls(json_build_object('status', 'interrupted',
          'cause', v_cause, 'reason', km_reason(v_cause), 'owner', r.owner))::text);
    END IF;
    o_thread := r.id; o_interrupted := r.work; o_seq := r.seq + r.work::int;
    RETURN NEXT;
  END LOOP;
END $$;

-- Returns the jobs that the queue must create and drop for these threads, and announces their new state.
CREATE OR REPLACE FUNCTION km_follow(p_threads text[])
  RETURNS TABLE (o_thread text, o_tenant text, o_project text, o_format int, o_priority int, o_at bigint,
    o_job uuid, o_made boolean, o_dropped uuid[]) LANGUAGE plpgsql AS $$
DECLARE
  r record;
BEGIN
  FOR r IN SELECT t.id, t.tenant, t.project, t.format, t.priority, t.owner, t.queued, t.job, t.work, t.seq,
      t.status FROM threads t WHERE t.id = ANY (p_threads) ORDER BY t.id FOR UPDATE
  LOOP
    PERFORM km_tell('h ' || r.id || ' ' || r.seq || ' ' || r.status);
    CONTINUE WHEN r.owner IS NOT NULL;
    o_thread := r.id; o_tenant := r.tenant; o_project := r.project; o_priority := r.priority;
    o_format := r.format;
    o_at := r.queued; o_made := r.queued IS NOT NULL AND r.job IS NULL;
    o_job := CASE WHEN r.queued IS NOT NULL THEN coalesce(r.job, gen_random_uuid()) END;
    o_dropped := array_remove(ARRAY[r.work, CASE WHEN r.queued IS NULL THEN r.job END], NULL);
    IF r.work IS NOT NULL OR o_job IS DISTINCT FROM r.job THEN
      UPDATE threads SET job = o_job, work = NULL WHERE id = r.id;
    END IF;
    IF r.queued IS NOT NULL THEN
      PERFORM km_tell('q ' || r.project || E'\t' || coalesce(r.tenant, ''));
    END IF;
    IF o_job IS NOT NULL OR o_dropped <> '{}' THEN RETURN NEXT; END IF;
  END LOOP;
END $$;
