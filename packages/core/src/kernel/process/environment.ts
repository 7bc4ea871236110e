// A child sees nothing of our environment but this list, what its tool declares by name, and what
// its config sets. Keys and tokens of the person who started us stay with us.
import { delimiter, isAbsolute } from 'node:path';
import { type Clock, isInside } from '../../base/index.ts';
import type { SandboxPolicy } from '../sandbox/decide.ts';

type ProcessEnvironment = Readonly<Record<string, string | undefined>>;

export interface ProcessPorts extends SandboxPolicy {
  clock: Clock;
  env: ProcessEnvironment;
  /** Where output that does not fit goes. Made when needed. */
  outputDir(): string;
  /** Never visible in a sandbox: the user's `.ai` folder, wherever that is. */
  hidden: readonly string[];
  /** Folder of the user for what children of this project made and may not leave there. */
  aside: string;
  install: 'allow' | 'ask' | 'deny';
}

const PASSED = ['LANG', 'LANGUAGE', 'TZ', 'TERM', 'NO_COLOR', 'COLORTERM'];
const FALLBACK_PATH = '/usr/local/bin:/usr/bin:/bin';

/**
 * Folders that commands are looked up in. Those inside the project are left out: whoever may write
 * files there could otherwise put a program in the place of `git`.
 */
export function searchPath(env: ProcessEnvironment, projectRoot: string): string[] {
  const listed = (env.PATH || FALLBACK_PATH).split(delimiter);
  return [...new Set(listed)].filter(
    (folder) => isAbsolute(folder) && !folder.includes('\0') && !isInside(folder, projectRoot),
  );
}

interface ChildEnvironment {
  /** Ours; only the listed and the declared names are read from it. */
  env: ProcessEnvironment;
  declared: readonly string[];
  config: ProcessEnvironment;
  path: readonly string[];
  home: string;
  temp: string;
}

/** The whole environment of a child. What the config sets wins over what was passed on. */
export function childEnvironment(options: ChildEnvironment): Record<string, string> {
  const { env, declared, config, path, home, temp } = options;
  const made: Record<string, string> = {
    PATH: path.join(delimiter),
    HOME: home,
    TMPDIR: temp,
    USER: 'sandbox',
    LOGNAME: 'sandbox',
  };
  const locale = Object.keys(env).filter((name) => name.startsWith('LC_'));
  for (const name of [...PASSED, ...locale, ...declared]) {
    const value = env[name];
    if (value !== undefined && !value.includes('\0')) made[name] = value;
  }
  for (const [name, value] of Object.entries(config)) if (value !== undefined) made[name] = value;
  return made;
}
