// Actions of a person on keys, trust and files. Each one writes a row of the audit.
import { relative } from 'node:path';
import { type Outcome, ok, systemClock } from '../base/index.ts';
import { type SignedFile, signItem } from '../items/index.ts';
import { ownKey } from './open-project.ts';
import type { Runtime } from './runtime.ts';
import { type Actor, personAuditRow } from './thread-signals.ts';

/** Writes the audit row of a person's action, with its result. Fails if the row cannot be written. */
export function noted<T>(
  { audit }: Runtime,
  row: ReturnType<typeof personAuditRow>,
  done: Outcome<T>,
): Outcome<T> {
  const failed = done.ok ? undefined : done.error;
  const reason = failed ? `${failed.code}: ${failed.detail.message}` : row.reason;
  const written = audit.write({ ...row, decision: failed ? 'failed' : 'allowed', reason });
  return done.ok && !written.ok ? written : done;
}

/** Signs one file after the other. The first failure ends it, and earlier files stay signed. */
export function signFiles(
  runtime: Runtime,
  files: readonly string[],
  by: Actor,
): Outcome<SignedFile[]> {
  const key = ownKey(runtime);
  if (!key.ok) return key;
  const signed: SignedFile[] = [];
  for (const file of files) {
    const row = personAuditRow(by, 'sign', relative(runtime.project, file));
    const tried = signItem(file, key.output, systemClock, runtime.library.roots());
    const done = noted(runtime, row, tried);
    runtime.library.noteChange();
    if (!done.ok) return done;
    signed.push(done.output);
  }
  return ok(signed);
}
