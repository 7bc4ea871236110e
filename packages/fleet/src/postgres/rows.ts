// How what the port knows stands in parameters and columns: amounts as arrays, what may be absent as null.
import type { AuditEntry, Reserve, Sealed, ThreadSummary } from '@kernmantle/core/store';
import {
  type Amounts,
  BUDGET_KINDS,
  costAndTitle,
  positive,
  readAmounts,
  type ThreadText,
} from '@kernmantle/core/store';
import type { ServerRegistry } from './registry.ts';

/** How what may be absent stands in a row. */
export type ServerColumns<T> = {
  [K in keyof T]-?: object extends Pick<T, K> ? NonNullable<T[K]> | null : T[K];
};
type Empty<R> = { [K in keyof R]: null extends R[K] ? K : never }[keyof R];
type Present<R> = Omit<R, Empty<R>> & { [K in Empty<R>]?: NonNullable<R[K]> };

/** The columns that are not NULL. */
export const presentOnly = <R extends object>(row: R): Present<R> =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)) as Present<R>;

export const SUMMARY_COLUMNS =
  'id, parent, root, depth, kind, directive, version, runner, tenant, project, items, detached, ' +
  'title, status, seq, epoch, attempt, owner, lease_until, created, updated, ended, cost';

export type SummaryColumns = ServerColumns<Omit<ThreadSummary, 'cost'>> & { cost: string };

export const summaryOf = ({ cost, title, ...rest }: SummaryColumns): ThreadSummary => ({
  ...presentOnly(rest),
  ...costAndTitle(cost, title),
});

/** `none`: what stands where nothing was said. */
export const amountsArray = (amounts: Amounts, none: 'NULL' | '0' = '0'): string =>
  `{${BUDGET_KINDS.map((kind) => amounts[kind] ?? none).join(',')}}`;

/** From an array that was cast to texts. */
export const fromArray = (texts: readonly (string | null)[]): Amounts =>
  readAmounts(Object.fromEntries(BUDGET_KINDS.map((kind, index) => [kind, texts[index] ?? null])));

export const someOf = (texts: readonly string[]): Amounts => positive(fromArray(texts));

export const reserveRows = (wishes: readonly Reserve[] | undefined) =>
  wishes?.map((wish) => ({ ...wish, amounts: amountsArray(wish.amounts) }));

export const sealedRows = (secrets: readonly Sealed[] | undefined) =>
  secrets?.map(({ number, sealed }) => ({
    number,
    sealed: Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength).toString('base64'),
  }));

const MAX_TEXT = 500;
/** The server keeps no NUL and no half characters: an odd name must not be a way to leave no row. */
export const storable = (text: string): string => text.toWellFormed().replaceAll('\0', '␀');
const short = (text: string): string =>
  storable(text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text);

export const auditRowsOf = (rows: readonly AuditEntry[] | undefined) =>
  rows?.map((row) => ({
    ...row,
    caller: storable(row.caller),
    subject: storable(row.subject),
    operation: short(row.operation),
    target: short(row.target),
    reason: short(row.reason),
  }));

/** As `km_bear` takes it. */
export function birthOf(
  { thread, events, limits, inputs, search }: ThreadText,
  { clock, formats, maxLeaseMs }: ServerRegistry,
): Readonly<Record<string, unknown>> {
  const { id, directive, version, runner, project, items, start } = thread;
  const { kind = 'thread', detached = false, title } = thread;
  const tenant = thread.tenant || undefined;
  const started =
    'lease' in start
      ? { lease: { owner: start.lease.owner, ttl: Math.min(start.lease.ttlMs, maxLeaseMs) } }
      : { priority: start.queue.priority, after: start.queue.after, said: clock.now() };
  return {
    id,
    kind,
    directive,
    version,
    runner,
    tenant,
    project,
    items,
    detached,
    events,
    limits,
    inputs,
    title: title === undefined ? undefined : storable(title),
    search,
    ...started,
    format: formats.at(-1),
    budget: amountsArray(thread.budget, 'NULL'),
    reserve: reserveRows(thread.reserve),
    secrets: sealedRows(thread.secrets),
  };
}
