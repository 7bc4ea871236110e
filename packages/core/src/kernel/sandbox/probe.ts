// Finds a sandbox that works on this machine. Each candidate is tried by running a program in it, because
// an installed binary does not work if user namespaces are disabled.
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { messageOf, spawn } from '../../base/index.ts';
import { bwrapWorld } from './bwrap.ts';
import { ARGUMENTS_FD, SANDBOX_PATH, type SandboxReport } from './plan.ts';
import { PROGRAMS, utilLinuxLaunch } from './util-linux.ts';
import { isExecutable } from './visible.ts';

const PROBE_MS = 10_000;
const MAX_OUTPUT = 65_536;
/** System folders. The person's path is not used, because a project could be on it. */
const FOLDERS = [...SANDBOX_PATH.split(':'), '/usr/local/bin', '/run/wrappers/bin'];

const findIn = (folders: readonly string[], name: string): string | undefined =>
  folders.map((folder) => join(folder, name)).find(isExecutable);

/**
 * Runs the program as a real start does: `options` come on a descriptor. Returns its output, or the
 * reason of a failure.
 */
const run = (file: string, args: readonly string[], options = '') =>
  new Promise<{ ok: boolean; text: string }>((resolve) => {
    const child = spawn(file, args, {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      env: { PATH: SANDBOX_PATH },
      timeout: PROBE_MS,
      killSignal: 'SIGKILL',
    });
    const output = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (chunk: string) => {
        output[name] = (output[name] + chunk).slice(0, MAX_OUTPUT);
      });
    }
    child.on('error', (error) => resolve({ ok: false, text: error.message }));
    child.on('close', (code) =>
      resolve(
        code === 0
          ? { ok: true, text: output.stdout.trim() }
          : { ok: false, text: output.stderr.trim() || `code ${code}` },
      ),
    );
    const input = child.stdio[ARGUMENTS_FD] as Writable;
    input.on('error', () => undefined);
    input.end(options);
  }).catch((error: unknown) => ({ ok: false, text: messageOf(error) }));

async function probeBwrap(folders: readonly string[]): Promise<SandboxReport> {
  const path = findIn(folders, 'bwrap');
  if (path === undefined) return { kind: 'none', reason: '`bwrap` is not installed' };
  const tried = await run(path, [...bwrapWorld(false, 16), '--', '/bin/sh', '-c', ':']);
  if (!tried.ok) return { kind: 'none', reason: `\`bwrap\` does not work here: ${tried.text}` };
  const version = await run(path, ['--version']);
  const help = await run(path, ['--help']);
  return {
    kind: 'bwrap',
    path,
    version: version.text.replace(/^bubblewrap\s+/, ''),
    bindsByFd: help.text.includes('--ro-bind-fd'),
  };
}

async function probeUtilLinux(folders: readonly string[]): Promise<SandboxReport> {
  const none = (reason: string): SandboxReport => ({ kind: 'none', reason });
  const missing = PROGRAMS.find((name) => findIn(folders, name) === undefined);
  if (missing !== undefined) return none(`\`${missing}\` is not installed`);
  const path = findIn(folders, 'setpriv') ?? 'setpriv';
  const report: SandboxReport = { kind: 'util-linux', path };
  const launch = utilLinuxLaunch({
    report,
    projectRoot: '/usr',
    view: { root: 'read', places: [], hidden: [] },
    shown: [],
    shownLast: [],
    closed: [],
    temporaryMb: 16,
    network: false,
    cwd: '/usr',
    env: {},
    command: ['/bin/sh', '-c', ':'],
  });
  if (!launch.ok) return none(launch.error.detail.message);
  const { file, args, options } = launch.output;
  const tried = await run(file, args, options);
  if (!tried.ok) return none(`\`unshare\` does not work here: ${tried.text.split('\n')[0]}`);
  const version = await run(path, ['--version']);
  return { ...report, version: version.text.replace(/^.*\s/, '') };
}

type LinuxKind = 'bwrap' | 'util-linux';
const LINUX: Readonly<Record<LinuxKind, typeof probeBwrap>> = {
  bwrap: probeBwrap,
  'util-linux': probeUtilLinux,
};

/** Returns the first sandbox that works, with the reasons why earlier ones do not. */
async function probeLinux(
  folders: readonly string[],
  kinds: readonly LinuxKind[],
): Promise<SandboxReport> {
  const reasons: string[] = [];
  for (const kind of kinds) {
    const report = await LINUX[kind](folders);
    const reason = reasons.length > 0 ? { reason: reasons.join('; ') } : {};
    if (report.kind !== 'none') return { ...report, ...reason };
    if (report.reason !== undefined) reasons.push(report.reason);
  }
  return { kind: 'none', reason: reasons.join('; ') };
}

async function probeSeatbelt(folders: readonly string[]): Promise<SandboxReport> {
  const path = findIn(folders, 'sandbox-exec');
  if (path === undefined) return { kind: 'none', reason: '`sandbox-exec` is missing' };
  const tried = await run(path, ['-p', '(version 1)(allow default)', '/usr/bin/true']);
  return tried.ok
    ? { kind: 'sandbox-exec', path }
    : { kind: 'none', reason: `\`sandbox-exec\` does not work here: ${tried.text}` };
}

interface ProbeOptions {
  platform?: string;
  folders?: readonly string[];
  /** On Linux: the kinds to try, in this order. */
  kinds?: readonly LinuxKind[];
}

async function probe(options: ProbeOptions): Promise<SandboxReport> {
  const { platform = process.platform, folders = FOLDERS } = options;
  if (platform === 'linux') {
    return await probeLinux(folders, options.kinds ?? ['bwrap', 'util-linux']);
  }
  if (platform === 'darwin') return await probeSeatbelt(folders);
  return { kind: 'none', reason: `no sandbox is supported on \`${platform}\`` };
}

/** Cached result for this machine. A second project of the process does not repeat the probe. */
let probed: Promise<SandboxReport> | undefined;

/** Finds a sandbox. Never throws. The result is cached if a sandbox works. */
export async function probeSandbox(options?: ProbeOptions): Promise<SandboxReport> {
  if (options) return await probe(options);
  const report = await (probed ??= probe({}));
  if (report.kind === 'none') probed = undefined;
  return report;
}
