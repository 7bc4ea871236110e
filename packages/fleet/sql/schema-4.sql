CREATE TABLE IF NOT EXISTS memories (
  id text COLLATE "C" NOT NULL, tenant text COLLATE "C" NOT NULL, project text COLLATE "C" NOT NULL,
  scope text NOT NULL, owner text NOT NULL, text text NOT NULL, subject text NOT NULL, marks text NOT NULL,
  thread text COLLATE "C" NOT NULL, seq bigint NOT NULL, created bigint NOT NULL, expires bigint, endorsed_by text,
  PRIMARY KEY (tenant, project, id)
);
