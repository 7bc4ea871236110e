// Signs files for a person, and writes the audit rows of a person's actions on keys, trust and files.
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
  outcome: Outcome<T>,
): Outcome<T> {
  const failed = outcome.ok ? undefined : outcome.error;
  const reason = failed ? `${failed.code}: ${failed.detail.message}` : row.reason;
  const written = audit.write({ ...row, decision: failed ? 'failed' : 'allowed', reason });
  return outcome.ok && !written.ok ? written : outcome;
}

/** Signs one file after the other. It stops at the first failure, and earlier files stay signed. */
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
    const attempt = signItem(file, key.output, systemClock, runtime.library.roots());
    const outcome = noted(runtime, row, attempt);
    runtime.library.noteChange();
    if (!outcome.ok) return outcome;
    signed.push(outcome.output);
  }
  return ok(signed);
}
