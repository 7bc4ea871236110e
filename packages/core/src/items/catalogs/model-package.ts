// Installs an npm package with models into a folder of the user, and checks before each load that nothing in it has
// changed. A package is code that runs in this process, so only the user installs one.
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import {
  fail,
  getOwn,
  type JsonObject,
  messageOf,
  type Outcome,
  objectAt,
  ok,
  parseYaml,
  textAt,
  withYamlValues,
} from '../../base/index.ts';
import { putFile } from '../files/item-file.ts';
import { runCommand } from './fetch.ts';

/** Name and exact version of a package. */
const EXACT = /^((?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*)@(\d+\.\d+\.\d+(?:-[\w.-]+)?)$/;
const INSTALL_MS = 180_000;
const INSTALL = (
  'install --ignore-scripts --no-audit --no-fund --no-bin-links --save-exact --omit=dev ' +
  '--omit=optional --loglevel=error --'
).split(' ');
/** Module in the folder that imports the package, so that it is resolved from this folder. */
const ENTRY = 'entry.mjs';

type Env = Readonly<Record<string, string | undefined>>;

export interface InstalledPackage {
  readonly package: string;
  readonly version: string;
  readonly folder: string;
  /** SHA-256 of the lock file, and of the names and contents of all files. */
  readonly lock: string;
  readonly tree: string;
}

const sha256 = (data: string | Uint8Array): string =>
  createHash('sha256').update(data).digest('hex');
const lockFile = (home: string): string => join(home, 'config', 'models.lock.yaml');
const plainName = (name: string): string => name.replace(/^@[^/]+\//, '');
const folderOf = (home: string, name: string): string => join(home, 'models', plainName(name));

/** Returns a hash over all files. Fails for a link, because its target can change. */
function treeHash(folder: string): Outcome<string> {
  const all = createHash('sha256');
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => ({ path: join(entry.parentPath, entry.name), isFile: entry.isFile() }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
  for (const { path, isFile } of files) {
    const name = path.slice(folder.length);
    if (!isFile) return fail('config_invalid', `\`${path}\` must be a regular file`);
    all.update(`${name}\0${sha256(readFileSync(path))}\n`);
  }
  return ok(all.digest('hex'));
}

/** Installs one exact version and records its hashes. The folder is replaced when it is complete. */
export async function installModelPackage(
  spec: string,
  { home, env }: { home: string; env: Env },
  signal: AbortSignal,
): Promise<Outcome<InstalledPackage>> {
  const [, name, version] = EXACT.exec(spec) ?? [];
  if (name === undefined || version === undefined) {
    return fail(
      'usage',
      `\`${spec}\` must be a package with an exact version, such as \`@ai-sdk/amazon-bedrock@5.0.101\``,
    );
  }
  const folder = folderOf(home, name);
  try {
    mkdirSync(join(home, 'models'), { recursive: true, mode: 0o700 });
    const fresh = mkdtempSync(`${folder}-`);
    try {
      writeFileSync(join(fresh, 'package.json'), '{"private":true,"type":"module"}\n');
      const run = { cwd: fresh, env, timeoutMs: INSTALL_MS, signal };
      const npm = await runCommand('npm', [...INSTALL, spec], run);
      if (!npm.ok) return npm;
      rmSync(join(fresh, 'node_modules', '.package-lock.json'), { force: true });
      writeFileSync(join(fresh, ENTRY), `export * from '${name}';\n`);
      const tree = treeHash(fresh);
      if (!tree.ok) return tree;
      const lock = sha256(readFileSync(join(fresh, 'package-lock.json')));
      const saved = recordHashes(home, name, { package: name, version, lock, tree: tree.output });
      if (!saved.ok) return saved;
      rmSync(folder, { recursive: true, force: true });
      renameSync(fresh, folder);
      return ok({ package: name, version, folder, lock, tree: tree.output });
    } finally {
      rmSync(fresh, { recursive: true, force: true });
    }
  } catch (error) {
    return fail('tool_failed', `package \`${spec}\` cannot be installed: ${messageOf(error)}`);
  }
}

function recordHashes(home: string, name: string, values: JsonObject): Outcome<null> {
  const file = lockFile(home);
  const before = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const after = withYamlValues(before, [{ path: ['packages', plainName(name)], value: values }]);
  return after.ok ? putFile(file, after.output, false) : after;
}

/** Returns the module of an installed package. Fails if a file was changed, added or removed since. */
export function modelPackageEntry(home: string, name: string): Outcome<string> {
  const folder = folderOf(home, name);
  const file = lockFile(home);
  const value = existsSync(file) ? parseYaml(readFileSync(file, 'utf8')).value : null;
  const row = getOwn(objectAt(value, 'packages'), plainName(name));
  if (!existsSync(folder) || textAt(row, 'package') !== name) {
    const detail = { reason: 'package_missing', transient: false, package: name };
    return fail('model_unavailable', `package \`${name}\` is not installed for models`, detail);
  }
  const tree = treeHash(folder);
  if (!tree.ok) return tree;
  if (tree.output === textAt(row, 'tree')) return ok(join(folder, ENTRY));
  const hint = 'install it again, if you trust the change';
  return fail(
    'config_invalid',
    `the files of package \`${name}\` are not those that were installed`,
    { hint },
  );
}
