// Fetches a catalog to a folder of this machine. A folder is used in place, a git repository is cloned, and
// npm unpacks packages. Hooks, filters, submodules and install scripts are off, so no fetched code runs.
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fail, getOwn, messageOf, type Outcome, ok, spawn } from '../../base/index.ts';
import type { CatalogEntry } from '../data/catalog-settings.ts';
import { jsonIn } from '../files/item-file.ts';
import { BUNDLE_KEYWORD, bundleFolder } from './installed-bundles.ts';

export interface FetchPorts {
  run: RunCommand;
  env: Readonly<Record<string, string | undefined>>;
}

const TIMEOUT_MS = 180_000;
const MAX_PACKAGES = 20;

const GIT_SAFE = [
  'core.hooksPath=/dev/null',
  'core.symlinks=false',
  'core.fsmonitor=false',
  'protocol.ext.allow=never',
  'filter.lfs.smudge=',
  'filter.lfs.required=false',
  'submodule.recurse=false',
].flatMap((setting) => ['-c', setting]);

const CLONE = 'clone --quiet --depth 1 --no-tags --single-branch --no-recurse-submodules'.split(
  ' ',
);
const INSTALL = (
  'install --ignore-scripts --no-audit --no-fund --no-bin-links --no-package-lock ' +
  '--omit=dev --omit=optional --omit=peer'
).split(' ');

/** Returns the folder with the layout of `.ai/` inside of the fetched files. */
const itemsIn = (folder: string): string =>
  [join(folder, '.ai'), join(folder, 'bundle')].find((path) => existsSync(path)) ?? folder;

/** Fills a new folder and renames it over the old one, so that no partial content is ever visible. */
async function replace(into: string, fill: (fresh: string) => Promise<Outcome<string>>) {
  const fresh = mkdtempSync(`${into}-`);
  try {
    const filled = await fill(fresh);
    if (!filled.ok) return filled;
    rmSync(into, { recursive: true, force: true });
    renameSync(fresh, into);
    return ok(into);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

async function fetchGit(entry: CatalogEntry, cache: string, base: string, ports: FetchPorts) {
  const from = /^\.{0,2}\//.test(entry.location) ? resolve(base, entry.location) : entry.location;
  const branch = entry.ref === undefined ? [] : ['--branch', entry.ref];
  const args = [...GIT_SAFE, ...CLONE, ...branch, '--', from];
  const env = {
    ...ports.env,
    GIT_TERMINAL_PROMPT: '0',
    GIT_ALLOW_PROTOCOL: 'https:ssh:file',
    GIT_LFS_SKIP_SMUDGE: '1',
  };
  const checkout = await replace(join(cache, 'checkout'), (fresh) =>
    ports.run('git', [...args, fresh], { cwd: cache, env, timeoutMs: TIMEOUT_MS }),
  );
  return checkout.ok ? ok([itemsIn(checkout.output)]) : checkout;
}

/** Returns the packages of a catalog: the named package, or the packages with the keyword. */
async function packagesOf(
  entry: CatalogEntry,
  cwd: string,
  { run, env }: FetchPorts,
): Promise<Outcome<string[]>> {
  if (entry.location !== '') return ok([entry.location]);
  const args = ['search', '--json', `--searchlimit=${MAX_PACKAGES}`, `keywords:${BUNDLE_KEYWORD}`];
  const listing = await run('npm', args, { cwd, env, timeoutMs: TIMEOUT_MS });
  if (!listing.ok) return listing;
  const listed = jsonIn({ text: listing.output });
  const names = (Array.isArray(listed) ? listed : []).flatMap((one) => {
    const [name, version] = [getOwn(one, 'name'), getOwn(one, 'version')];
    return typeof name === 'string' && typeof version === 'string' ? [`${name}@${version}`] : [];
  });
  return ok(names.slice(0, MAX_PACKAGES));
}

async function fetchNpm(entry: CatalogEntry, cache: string, ports: FetchPorts) {
  const packages = await packagesOf(entry, cache, ports);
  if (!packages.ok || packages.output.length === 0) return packages;
  const { env } = ports;
  const installed = await replace(join(cache, 'packages'), (fresh) => {
    // The manifest keeps npm from a search of the parent folders.
    writeFileSync(join(fresh, 'package.json'), '{"private":true}\n');
    const args = [...INSTALL, '--', ...packages.output];
    return ports.run('npm', args, { cwd: fresh, env, timeoutMs: TIMEOUT_MS });
  });
  if (!installed.ok) return installed;
  const names = packages.output.map((one) => one.replace(/(?!^)@.*$/, ''));
  const folders = names.flatMap(
    (name) => bundleFolder(join(installed.output, 'node_modules', name)) ?? [],
  );
  return folders.length > 0
    ? ok(folders)
    : fail('invalid_item', `no npm package with the keyword \`${BUNDLE_KEYWORD}\` contains items`);
}

/**
 * Fetches a catalog and returns folders with the layout of `.ai/`. `cache` is the catalog's own folder.
 * Relative paths start at `base`.
 */
export async function fetchCatalog(
  entry: CatalogEntry,
  cache: string,
  base: string,
  ports: FetchPorts,
): Promise<Outcome<string[]>> {
  if (entry.type === 'folder') {
    const folder = resolve(base, entry.location);
    return existsSync(folder)
      ? ok([itemsIn(folder)])
      : fail('not_found', `catalog \`${entry.name}\`: folder \`${folder}\` not found`);
  }
  try {
    mkdirSync(cache, { recursive: true });
    return entry.type === 'git'
      ? await fetchGit(entry, cache, base, ports)
      : await fetchNpm(entry, cache, ports);
  } catch (error) {
    return fail('tool_failed', `catalog \`${entry.name}\`: ${messageOf(error)}`);
  }
}

/** Options of a run of `git` or `npm`, which never uses a shell. The process group ends with the call. */
interface CommandOptions {
  cwd: string;
  env: Readonly<Record<string, string | undefined>>;
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

/** Runs a program and returns its output. Fails with `tool_failed` for an exit code other than 0. */
type RunCommand = (
  command: string,
  args: readonly string[],
  options: CommandOptions,
) => Promise<Outcome<string>>;

const MAX_OUTPUT = 8 * 1024 * 1024;

/** Removes secrets in addresses (`https://user:token@host`) from messages. */
const withoutSecrets = (text: string): string =>
  text.replaceAll(/:\/\/[^/@\s]{1,500}@/g, '://***@');

export const runCommand: RunCommand = (command, args, { cwd, env, timeoutMs, signal }) =>
  new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    let [output, errors] = ['', ''];
    let stopped: Outcome<never> | undefined;
    const end = (code: string, why: string) => {
      stopped ??= fail(code, `\`${command}\` was stopped: ${why}`);
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      } catch {
        // The process has ended already.
      }
    };
    const onAbort = () => end('cancelled', 'it was cancelled');
    const tooLong = `it took longer than ${timeoutMs / 1000} seconds`;
    const timer = setTimeout(() => end('timeout', tooLong), timeoutMs);
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted) onAbort();
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (output.length > MAX_OUTPUT) end('tool_failed', 'it printed too much');
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      errors = (errors + text).slice(-2000);
    });
    const finish = (result: Outcome<string>) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      resolve(result);
    };
    child.on('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'ENOENT' ? 'it is not installed' : error.message;
      finish(fail('dependency_missing', `cannot run \`${command}\`: ${why}`));
    });
    child.on('close', (code) => {
      if (stopped) finish(stopped);
      else if (code === 0) finish(ok(output));
      else {
        const lastLine = withoutSecrets(errors.trim().split('\n').at(-1) ?? '');
        finish(fail('tool_failed', `\`${command}\` ended with ${code}: ${lastLine}`));
      }
    });
  });
