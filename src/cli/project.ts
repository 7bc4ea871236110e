import { relative } from 'node:path';
import { compact, fail, type Outcome, ok, systemClock } from '../base/index.ts';
import { type SignedFile, signItem } from '../items/index.ts';
import {
  createRuntime,
  ownKey,
  personIn,
  personRow,
  type Runtime,
  type RuntimeOptions,
  type Speaker,
} from '../runtime/index.ts';
import { asText, type CommandCall, type CommandRun, type Ending } from './command.ts';

/** Who speaks: threads and the audit note it with everything they are told. */
export const speaker = ({ terminal }: Pick<CommandCall, 'terminal'>): Speaker => ({
  who: personIn(terminal.env),
  channel: 'cli',
});

/** What a person did to keys, trust or files is a row of the audit, whatever came of it. */
export function noted<T>(
  { audit }: Runtime,
  row: ReturnType<typeof personRow>,
  done: Outcome<T>,
): Outcome<T> {
  const failed = done.ok ? undefined : done.error;
  const reason = failed ? `${failed.code}: ${failed.detail.message}` : row.reason;
  const written = audit.write({ ...row, decision: failed ? 'failed' : 'allowed', reason });
  return done.ok && !written.ok ? written : done;
}

/** Signs file by file; the first that cannot be signed ends it, those before stay signed. */
export function signFiles(
  runtime: Runtime,
  files: readonly string[],
  by: Speaker,
): Outcome<SignedFile[]> {
  const key = ownKey(runtime);
  if (!key.ok) return key;
  const signed: SignedFile[] = [];
  for (const file of files) {
    const row = personRow(by, 'sign', relative(runtime.project, file));
    const tried = signItem(file, key.output, systemClock, runtime.library.roots());
    const done = noted(runtime, row, tried);
    runtime.library.noteChange();
    if (!done.ok) return done;
    signed.push(done.output);
  }
  return ok(signed);
}

/** Opens the runtime of the command's project, does the work, closes it whatever happened. */
export async function withRuntime(
  { options, terminal: { cwd, env } }: CommandCall,
  work: (runtime: Runtime) => Promise<Ending>,
  more: Pick<RuntimeOptions, 'login' | 'standIn'> = {},
): Promise<Ending> {
  const [project, store] = [asText(options.project), asText(options.store)];
  const place = store ? (await import('../store/index.ts')).readPlace(store) : ok(null);
  if (!place.ok) return fail('usage', `\`--store\`: ${place.error.detail.message}`);
  const opened = await createRuntime({ cwd, env, ...compact({ project, store }), ...more });
  if (!opened.ok) return opened;
  try {
    return await work(opened.output);
  } finally {
    await opened.output.close();
  }
}

/** A command that works in a project. */
export const inProject =
  (work: (runtime: Runtime, call: CommandCall) => Promise<Ending>): CommandRun =>
  (call) =>
    withRuntime(call, (runtime) => work(runtime, call));
