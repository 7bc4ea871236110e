ALTER TABLE threads ADD COLUMN IF NOT EXISTS title text;
CREATE TABLE IF NOT EXISTS search_texts (
  thread text COLLATE "C" PRIMARY KEY, first text NOT NULL, last text NOT NULL DEFAULT ''
);
