// Reads `settings.yaml` in the user's folder, with settings for all projects of a user on this machine. A project
// cannot have them, because an untrusted file must not choose the store and its password.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import {
  fail,
  isMissing,
  type Outcome,
  ok,
  openYaml,
  readRegularFile,
  record,
  text,
  textLike,
} from '../base/index.ts';
import { SHIPPED } from '../items/index.ts';

interface StoreChoice {
  /** Address of a server, which may contain a password. Absent: the file of the project. */
  address?: string;
  /** Tenant of the threads in a shared store. Absent: no tenant. */
  tenant?: string;
  from: string;
}

type Env = Readonly<Record<string, string | undefined>>;

const MAX_BYTES = 64 * 1024;
const TENANT = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const WHAT_TENANT = 'a name of letters, digits, `_`, `.` and `-`';
const settings = record({
  store: text,
  tenant: textLike(TENANT, WHAT_TENANT),
  chat: record({ directive: text }),
  acp: record({ directive: text }),
});

interface UserSettings {
  store?: string;
  tenant?: string;
  chat?: { directive?: string };
  acp?: { directive?: string };
}

/** Refuses a file with a password that others can read. Windows has no such bits. */
function modeProblem(file: string, store: string): Outcome<never> | undefined {
  const hasPassword = URL.canParse(store) && new URL(store).password !== '';
  if (process.platform === 'win32' || !hasPassword) return undefined;
  if ((statSync(file).mode & 0o077) === 0) return undefined;
  const message = `\`${file}\` contains a password and other users can read it; run \`chmod 600 ${file}\``;
  return fail('config_invalid', message, { file });
}

/** INVARIANT: a message never contains text of the file, which may be a password. */
function readSettings(home: string): Outcome<UserSettings> {
  const file = join(home, 'settings.yaml');
  const read = readRegularFile(file, { max: MAX_BYTES, followsLinks: true });
  if ('problem' in read) {
    if (isMissing(read.problem.errno)) return ok({});
    return fail('config_invalid', `\`${file}\`: ${read.problem.message}`, { file });
  }
  const opened = openYaml(read.bytes.toString('utf8'), file);
  const values = opened.value === null ? {} : settings(opened.value, opened.place);
  const [problem] = opened.diagnostics;
  if (problem || !values) {
    const [line, code] = [problem?.line ?? 1, problem?.code ?? 'invalid_field'];
    const what =
      code === 'yaml_syntax'
        ? 'the YAML syntax is wrong'
        : 'only `store`, `tenant`, `chat.directive` and `acp.directive` are allowed';
    return fail('config_invalid', `\`${file}\` is invalid in line ${line}: ${what}`, { file });
  }
  return modeProblem(file, values.store ?? '') ?? ok(values);
}

const ASSISTANT = `${SHIPPED}core/assistant`;

/** Returns the directive of a conversation: `chat.directive` or `acp.directive` of the user, or the shipped assistant. */
export function chatDirective(home: string, place: 'chat' | 'acp' = 'chat'): Outcome<string> {
  const own = readSettings(home);
  return own.ok ? ok(own.output[place]?.directive ?? ASSISTANT) : own;
}

/**
 * Returns the store and tenant of the options, else of the environment, else of the settings. An empty store
 * means the file of the project.
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
