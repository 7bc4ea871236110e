import { compact, type Outcome, ok, systemClock } from '../base/index.ts';
import { type SignedFile, signItem } from '../items/index.ts';
import { createRuntime, type Runtime, type RuntimeOptions } from '../runtime/index.ts';
import type { KeyPair } from '../trust/index.ts';
import { asText, type CommandCall, type Ending } from './command.ts';

/** The user's key, made when there is none, and trusted here unless it was revoked. */
function ownKey(runtime: Runtime): Outcome<KeyPair> {
  const key = runtime.keys.signingKey();
  if (!key.ok) return key;
  const { id, publicKey } = key.output;
  const known = runtime.trustStore.list();
  if (!known.ok) return known;
  if (!known.output.some((entry) => entry.id === id)) {
    const added = runtime.trustStore.add({ id, key: publicKey, name: 'me' });
    if (!added.ok) return added;
  }
  return key;
}

/** Signs file by file; the first that cannot be signed ends it, those before stay signed. */
export function signFiles(runtime: Runtime, files: readonly string[]): Outcome<SignedFile[]> {
  const key = ownKey(runtime);
  if (!key.ok) return key;
  const signed: SignedFile[] = [];
  for (const file of files) {
    const done = signItem(file, key.output, systemClock, runtime.library.roots());
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
  more: Partial<RuntimeOptions> = {},
): Promise<Ending> {
  const project = asText(options.project);
  const opened = await createRuntime({ cwd, env, ...compact({ project }), ...more });
  if (!opened.ok) return opened;
  try {
    return await work(opened.output);
  } finally {
    await opened.output.close();
  }
}
