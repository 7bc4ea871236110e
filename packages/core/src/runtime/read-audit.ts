// Reads the audit of a project. Rows of threads are in the registry, all other rows are in a file.
import { type Failure, fail, type Outcome, ok } from '../base/index.ts';
import type { AuditFilter, AuditRow } from '../kernel/index.ts';
import type { OpenProject } from './open-project.ts';
import { hasRegistry } from './threads.ts';

/** If one source cannot be read, the failure names it, and `output` has the rows of the other source. */
export type AuditAnswer =
  | { readonly ok: true; readonly output: AuditRow[] }
  | (Failure & { readonly output: AuditRow[] });

/** Returns the audit rows of threads. A project without a registry has none. */
async function registryRows(open: OpenProject, filter: AuditFilter): Promise<Outcome<AuditRow[]>> {
  const store = hasRegistry(open) ? await open.store?.() : undefined;
  if (!store) return ok([]);
  const rows = store.ok ? await store.output.auditRows(filter) : store;
  if (rows.ok) return rows;
  const { code, detail } = rows.error;
  const remedy = typeof detail.hint === 'string' ? `; ${detail.hint}` : '';
  const message = `the audit rows of threads cannot be read: ${detail.message}${remedy}`;
  return fail(code, message, { ...detail });
}

/** Returns the newest `filter.limit` rows of both sources, ordered by time. */
export async function readAudit(open: OpenProject, filter: AuditFilter): Promise<AuditAnswer> {
  await open.audit.kept?.();
  const sources = [open.audit.read(filter), await registryRows(open, filter)];
  const rows = sources
    .flatMap((source) => (source.ok ? source.output : []))
    .toSorted((a, b) => Number(a.time > b.time) - Number(a.time < b.time))
    .slice(-filter.limit);
  const [failed, other] = sources.filter((source) => !source.ok);
  if (!failed) return { ok: true, output: rows };
  const { code, detail } = failed.error;
  const message = other ? `${detail.message}; ${other.error.detail.message}` : detail.message;
  return { ...fail(code, message, { ...detail }), output: rows };
}
