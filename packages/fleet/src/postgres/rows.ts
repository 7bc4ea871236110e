// Converts values of the port to parameters and columns, and back. An absent value is null.
import type { AuditEntry, Sealed, ThreadSummary } from '@kernmantle/core/store';
import { costAndTitle, type ThreadText, writeAccount } from '@kernmantle/core/store';
import type { ServerRegistry } from './registry.ts';

/** A row in which an absent field is null. */
export type ServerColumns<T> = {
  [K in keyof T]-?: object extends Pick<T, K> ? NonNullable<T[K]> | null : T[K];
};
type Empty<R> = { [K in keyof R]: null extends R[K] ? K : never }[keyof R];
type Present<R> = Omit<R, Empty<R>> & { [K in Empty<R>]?: NonNullable<R[K]> };

/** Returns the columns that are not NULL. */
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

export const sealedRows = (secrets: readonly Sealed[] | undefined) =>
  secrets?.map(({ number, sealed }) => ({
    number,
    sealed: Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength).toString('base64'),
  }));

const MAX_TEXT = 500;
/** Replaces NUL and lone surrogates, which the server refuses, so that any name can be in an audit row. */
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

/** Returns a new thread in the form of `km_insert`. */
export function childRow(
  { thread, events, limits, inputs, search }: ThreadText,
  account: Parameters<typeof writeAccount>[0] | undefined,
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
    account: account && writeAccount(account),
    secrets: sealedRows(thread.secrets),
  };
}
