CREATE TABLE threads (
  number bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  id text COLLATE "C" PRIMARY KEY, parent text COLLATE "C", root text COLLATE "C" NOT NULL,
  chain text[] NOT NULL, depth int NOT NULL, kind text NOT NULL, directive text NOT NULL,
  version text NOT NULL, runner text NOT NULL, tenant text, project text NOT NULL, items text,
  detached boolean NOT NULL, status text NOT NULL, seq int NOT NULL, epoch int NOT NULL,
  attempt int NOT NULL, owner text, lease_until bigint,
  wakes int NOT NULL DEFAULT 0, acknowledged int NOT NULL DEFAULT 0, killed boolean NOT NULL DEFAULT false,
  queued bigint, priority int NOT NULL DEFAULT 0, job uuid, work uuid, format int NOT NULL DEFAULT 3,
  created bigint NOT NULL, updated bigint NOT NULL, ended bigint, cost text NOT NULL DEFAULT '{}'
) WITH (fillfactor = 70);
CREATE INDEX threads_by_status ON threads(status, created, id);
CREATE INDEX threads_by_creation ON threads(created, id);
CREATE INDEX threads_by_parent ON threads(parent, created, id) WHERE parent IS NOT NULL;
CREATE INDEX threads_by_root ON threads(root);
CREATE INDEX threads_queued ON threads(project, coalesce(tenant, ''), format, queued) WHERE queued IS NOT NULL;
CREATE INDEX threads_held ON threads(id) WHERE owner IS NOT NULL;
CREATE INDEX threads_dropped ON threads(id)
  WHERE owner IS NULL AND queued IS NULL AND status IN ('spawning', 'running', 'terminating');

CREATE TABLE thread_data (
  thread text COLLATE "C" PRIMARY KEY, limits text NOT NULL, inputs text NOT NULL, result text, birth text
);
CREATE TABLE thread_events (
  thread bigint NOT NULL, seq int NOT NULL, ts bigint NOT NULL, turn int NOT NULL, type text NOT NULL,
  data text NOT NULL, PRIMARY KEY (thread, seq)
);
CREATE TABLE signals (
  thread text COLLATE "C" NOT NULL, number int NOT NULL, kind text NOT NULL, payload text NOT NULL,
  key text NOT NULL, sender text NOT NULL, ts bigint NOT NULL,
  PRIMARY KEY (thread, number), UNIQUE (thread, key)
);
CREATE TABLE budgets (
  thread text COLLATE "C" PRIMARY KEY, limits numeric[] NOT NULL,
  used numeric[] NOT NULL DEFAULT '{0,0,0,0,0}', reserved numeric[] NOT NULL DEFAULT '{0,0,0,0,0}'
) WITH (fillfactor = 70);
CREATE TABLE reservations (
  thread text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, amounts numeric[] NOT NULL,
  source text, standing boolean NOT NULL, PRIMARY KEY (thread, key)
);
CREATE TABLE approvals (
  id text COLLATE "C" PRIMARY KEY, thread text COLLATE "C", kind text NOT NULL, binding text NOT NULL,
  shown text NOT NULL, state text NOT NULL, uses_left bigint NOT NULL, expires bigint,
  asked bigint NOT NULL, decided bigint, who text, channel text, why text, answer text
);
CREATE INDEX approvals_by_binding ON approvals(md5(binding));
CREATE INDEX approvals_by_thread ON approvals(thread, asked, id);
CREATE INDEX approvals_by_state ON approvals(state, asked, id);
CREATE TABLE approval_uses (
  approval text COLLATE "C" NOT NULL, thread text COLLATE "C" NOT NULL, taken bigint NOT NULL,
  PRIMARY KEY (approval, thread)
);
CREATE TABLE artifacts (hash text COLLATE "C" PRIMARY KEY, bytes bytea NOT NULL, created bigint NOT NULL);
CREATE TABLE artifact_uses (
  thread text COLLATE "C" NOT NULL, hash text COLLATE "C" NOT NULL, PRIMARY KEY (thread, hash)
);
CREATE INDEX artifact_uses_by_hash ON artifact_uses(hash);
CREATE TABLE secrets (
  thread text COLLATE "C" NOT NULL, number int NOT NULL, sealed bytea NOT NULL,
  PRIMARY KEY (thread, number)
);
CREATE TABLE audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, time text NOT NULL, surface text NOT NULL,
  caller text NOT NULL, subject text NOT NULL, operation text NOT NULL, decision text NOT NULL,
  reason text NOT NULL, target text NOT NULL
);
CREATE INDEX audit_refused ON audit(decision, id) WHERE decision <> 'allowed';
CREATE TABLE workers (
  id text PRIMARY KEY,
  state text NOT NULL,
  started bigint NOT NULL,
  heartbeat bigint NOT NULL,
  clock_off bigint NOT NULL
);
CREATE TABLE shared_limits (
  scope text PRIMARY KEY,
  concurrent bigint,
  requests_per_minute bigint,
  tokens_per_minute bigint,
  spend_per_day numeric
);
CREATE TABLE places (
  place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provider text NOT NULL,
  tenant text NOT NULL,
  owner text NOT NULL,
  tokens bigint NOT NULL,
  spend numeric NOT NULL,
  second bigint NOT NULL,
  day bigint NOT NULL,
  until bigint NOT NULL,
  backend int NOT NULL,
  backend_since timestamptz
);
CREATE INDEX places_provider ON places (provider);
CREATE INDEX places_tenant ON places (tenant);
CREATE TABLE rate_buckets (
  scope text NOT NULL,
  second bigint NOT NULL,
  requests bigint NOT NULL,
  tokens bigint NOT NULL,
  PRIMARY KEY (scope, second)
) WITH (fillfactor = 50);
CREATE TABLE day_spend (
  scope text NOT NULL,
  day bigint NOT NULL,
  spent numeric NOT NULL,
  PRIMARY KEY (scope, day)
) WITH (fillfactor = 50);
CREATE TABLE waiting (
  scope text NOT NULL,
  owner text NOT NULL,
  ticket bigint GENERATED ALWAYS AS IDENTITY,
  tokens bigint NOT NULL,
  until bigint NOT NULL,
  PRIMARY KEY (scope, owner)
);
CREATE TABLE label_heads (
  project text PRIMARY KEY,
  last bigint NOT NULL
);
CREATE TABLE label_rows (
  project text NOT NULL,
  number bigint NOT NULL,
  text text NOT NULL,
  PRIMARY KEY (project, number)
);
