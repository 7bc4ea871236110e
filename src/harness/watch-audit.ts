// Every call of a thread is one row of the audit, as calls from outside are. What the harness does by
// itself stands in the thread's journal; of that only what was refused or failed is told here.
import { hash } from 'node:crypto';
import { childFrame, type RecordEntry } from '../flow/index.ts';
import { type Audit, auditRow, type Caller, type Kernel } from '../kernel/index.ts';

/** Which right it was: a hash, so that rows of one token can be found and nobody can use it. */
const subjectOf = ({ __auth, surface }: Caller): string =>
  __auth === undefined ? `policy:${surface}` : `token:${hash('sha256', __auth).slice(0, 16)}`;

export function auditCalls(kernel: Kernel, audit: Pick<Audit, 'write'>): Kernel {
  const audited = (caller: Caller): Caller => {
    const { surface, name = '', frame } = caller;
    const record = (entry: RecordEntry): void => {
      if (surface !== 'thread' && entry.outcome.ok) return;
      const row = auditRow(entry, { surface, caller: name, subject: subjectOf(caller) });
      const written = audit.write(row);
      // What cannot be recorded counts as failed; the pipeline turns this into an outcome.
      if (!written.ok) throw new Error(written.error.detail.message);
    };
    return { ...caller, frame: childFrame(frame, { ports: { record } }) };
  };
  return {
    search: (request, caller) => kernel.search(request, audited(caller)),
    load: (request, caller) => kernel.load(request, audited(caller)),
    execute: (request, caller) => kernel.execute(request, audited(caller)),
    help: (request, caller) => kernel.help(request, audited(caller)),
  };
}
