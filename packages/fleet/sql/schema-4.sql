CREATE TABLE IF NOT EXISTS memories (
  id text COLLATE "C" NOT NULL, tenant text COLLATE "C" NOT NULL, project text COLLATE "C" NOT NULL,
  scope text NOT NULL, owner text NOT NULL, text text NOT NULL, subject text NOT NULL, marks text NOT NULL,
  thread text COLLATE "C" NOT NULL, seq bigint NOT NULL, created bigint NOT NULL, expires bigint, endorsed_by text,
  PRIMARY KEY (tenant, project, id)
);
CREATE TABLE IF NOT EXISTS schedules (
  id text COLLATE "C" PRIMARY KEY, tenant text COLLATE "C" NOT NULL, project text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL, body text NOT NULL, signature text NOT NULL, next bigint NOT NULL, waiting bigint,
  last bigint, outcome text, paused text, refused int NOT NULL,
  stamp text NOT NULL, UNIQUE (project, tenant, name)
);
CREATE INDEX IF NOT EXISTS schedules_due ON schedules(project, coalesce(waiting, next)) WHERE paused IS NULL;
CREATE TABLE IF NOT EXISTS schedule_fires (
  schedule text COLLATE "C" NOT NULL, tick bigint NOT NULL, at bigint NOT NULL, outcome text NOT NULL,
  reason text NOT NULL, thread text COLLATE "C", PRIMARY KEY (schedule, tick)
);
CREATE INDEX IF NOT EXISTS schedule_fires_by_time ON schedule_fires(schedule, at);
CREATE INDEX IF NOT EXISTS schedule_fires_by_thread ON schedule_fires(thread) WHERE thread IS NOT NULL;
