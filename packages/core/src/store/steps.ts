// The type of rules for rows that both stores have. A rule is a generator of statements: each store runs it in its own
// transaction, so SQLite and PostgreSQL cannot differ.
export type SqlCell = string | number | null;
export type SqlRow = Readonly<Record<string, SqlCell>>;

/** Yields statements with the values of `$1`, `$2` and so on, and receives their rows. */
export type StoreSteps<T> = Generator<readonly [string, ...SqlCell[]], T, readonly SqlRow[]>;
