-- An account is one row with one version. It contains its amounts and its open reservations as JSON.
ALTER TABLE budgets ADD COLUMN version int NOT NULL DEFAULT 0, ADD COLUMN account jsonb;

CREATE FUNCTION km_amounts(p_amounts numeric[]) RETURNS jsonb LANGUAGE sql IMMUTABLE
  RETURN jsonb_strip_nulls(jsonb_build_object('spawns', p_amounts[1]::text, 'tokens', p_amounts[2]::text,
    'input_tokens', p_amounts[3]::text, 'output_tokens', p_amounts[4]::text, 'spend', p_amounts[5]::text));
UPDATE budgets b SET account = jsonb_build_object('limits', km_amounts(b.limits), 'used', km_amounts(b.used),
  'reserved', km_amounts(b.reserved), 'open', coalesce((SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
      'key', r.key, 'amounts', km_amounts(r.amounts), 'from', r.source,
      'standing', CASE WHEN r.standing THEN 1 END)) ORDER BY r.key)
    FROM reservations r WHERE r.thread = b.thread), '[]'));
DROP FUNCTION km_amounts;

ALTER TABLE budgets ALTER COLUMN account SET NOT NULL, DROP COLUMN limits, DROP COLUMN used, DROP COLUMN reserved;
DROP TABLE reservations;
-- The rules of budgets and of the fence are in `decide`, which every program of this version has.
DROP FUNCTION IF EXISTS km_account, km_add, km_bear, km_budget, km_commit, km_commit_rest, km_create,
  km_exceeded, km_fence, km_find, km_keep, km_less, km_missing, km_open_below, km_payload, km_raise, km_refuse,
  km_reserve, km_room, km_set_aside, km_settle, km_shown, km_signals;
