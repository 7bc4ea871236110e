// `settings.yaml` in the user's folder: settings for all of a user's projects on this machine. A project
// cannot have them, because an untrusted file must not choose the store and its password.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import {
  fail,
  type Outcome,
  ok,
  openYaml,
  readRegularFile,
  record,
  text,
  textLike,
} from '../base/index.ts';

interface StoreChoice {
  /** Address of a server, which may contain a password. Absent: the file of the project. */
  address?: string;
  /** Tenant of the threads in a shared store. */
  tenant?: string;
  from: string;
}

type Env = Readonly<Record<string, string | undefined>>;

const MAX_BYTES = 64 * 1024;
const TENANT = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const WHAT_TENANT = 'a name of letters, digits, `_`, `.` and `-`';
const settings = record({ store: text, tenant: textLike(TENANT, WHAT_TENANT) });

/** Refuses a file with a password that others can read. Windows has no such bits. */
function modeProblem(file: string, store: string): Outcome<never> | undefined {
  const hasPassword = URL.canParse(store) && new URL(store).password !== '';
  if (process.platform === 'win32' || !hasPassword) return undefined;
  if ((statSync(file).mode & 0o077) === 0) return undefined;
  const message = `\`${file}\` holds a password and can be read by others; run \`chmod 600 ${file}\``;
  return fail('config_invalid', message, { file });
}

/** INVARIANT: a message never contains text of the file, which may be a password. */
function readSettings(home: string): Outcome<{ store?: string; tenant?: string }> {
  const file = join(home, 'settings.yaml');
  const read = readRegularFile(file, { max: MAX_BYTES, followsLinks: true });
  if ('problem' in read) {
    if (read.problem.errno === 'ENOENT') return ok({});
    return fail('config_invalid', `\`${file}\`: ${read.problem.message}`, { file });
  }
  const opened = openYaml(read.bytes.toString('utf8'), file);
  const found = opened.value === null ? {} : settings(opened.value, opened.place);
  const [problem] = opened.diagnostics;
  if (problem || !found) {
    const [line, code] = [problem?.line ?? 1, problem?.code ?? 'invalid_field'];
    const what =
      code === 'yaml_syntax' ? 'it is not valid YAML' : 'it may say `store` and `tenant`';
    return fail('config_invalid', `\`${file}\` has a mistake in line ${line}: ${what}`, { file });
  }
  return modeProblem(file, found.store ?? '') ?? ok(found);
}

/**
 * Returns the requested value, else that of the environment, else that of the settings. An empty one
 * means the file.
 */
export function chooseStore(
  options: { store?: string; tenant?: string },
  env: Env,
  home: string,
): Outcome<StoreChoice> {
  const own = readSettings(home);
  if (!own.ok) return own;
  const [store, from] =
    options.store !== undefined
      ? [options.store, '`--store`']
      : env.KERNMANTLE_STORE !== undefined
        ? [env.KERNMANTLE_STORE, '`KERNMANTLE_STORE`']
        : [own.output.store ?? '', `\`store\` in \`${join(home, 'settings.yaml')}\``];
  const tenant = options.tenant ?? env.KERNMANTLE_TENANT ?? own.output.tenant ?? '';
  if (tenant !== '' && !TENANT.test(tenant)) {
    return fail('config_invalid', `\`tenant\` must be ${WHAT_TENANT}`);
  }
  return ok({ from, ...(store !== '' && { address: store }), ...(tenant !== '' && { tenant }) });
}
