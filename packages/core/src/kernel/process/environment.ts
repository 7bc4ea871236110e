// Makes the environment of a child from a fixed list, the variables that its tool declares, and those that
// its config sets. Keys and tokens of the user's environment are not passed on.
import { delimiter, isAbsolute } from 'node:path';
import { type Clock, isInside } from '../../base/index.ts';
import type { SandboxPolicy } from '../sandbox/decide.ts';

type ProcessEnvironment = Readonly<Record<string, string | undefined>>;

export interface ProcessPorts extends SandboxPolicy {
  clock: Clock;
  env: ProcessEnvironment;
  /** Returns the folder for output that does not fit into a result, and creates it if it is missing. */
  outputDir(): string;
  /** Folders that no sandbox shows, such as the user's `.ai` folder. */
  hidden: readonly string[];
  /** Folder of the user for files that children of this project must not leave behind. */
  aside: string;
  install: 'allow' | 'ask' | 'deny';
}

const PASSED = ['LANG', 'LANGUAGE', 'TZ', 'TERM', 'NO_COLOR', 'COLORTERM'];
const FALLBACK_PATH = '/usr/local/bin:/usr/bin:/bin';

/**
 * Returns the folders in which commands are looked up. Folders inside the project are left out, because
 * a caller who may write there could replace `git`.
 */
export function searchPath(env: ProcessEnvironment, projectRoot: string): string[] {
  const listed = (env.PATH || FALLBACK_PATH).split(delimiter);
  return [...new Set(listed)].filter(
    (folder) => isAbsolute(folder) && !folder.includes('\0') && !isInside(folder, projectRoot),
  );
}

interface ChildEnvironment {
  /** The environment of this process. Only the listed and the declared names are read from it. */
  env: ProcessEnvironment;
  declared: readonly string[];
  config: ProcessEnvironment;
  path: readonly string[];
  home: string;
  temp: string;
}

/** Returns the whole environment of a child. Variables of the config override inherited ones. */
export function childEnvironment(options: ChildEnvironment): Record<string, string> {
  const { env, declared, config, path, home, temp } = options;
  const variables: Record<string, string> = {
    PATH: path.join(delimiter),
    HOME: home,
    TMPDIR: temp,
    USER: 'sandbox',
    LOGNAME: 'sandbox',
  };
  const locale = Object.keys(env).filter((name) => name.startsWith('LC_'));
  for (const name of [...PASSED, ...locale, ...declared]) {
    const value = env[name];
    if (value !== undefined && !value.includes('\0')) variables[name] = value;
  }
  for (const [name, value] of Object.entries(config))
    if (value !== undefined) variables[name] = value;
  return variables;
}
