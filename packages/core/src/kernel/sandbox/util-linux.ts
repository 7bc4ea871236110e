// Makes the Linux sandbox without bubblewrap: the same view, by `unshare`, `mount`, `pivot_root` and
// `setpriv`. A shell with root in its own namespace builds it and gives up every right. A second shell
// inside sets the environment and stays as the parent of all processes there.
import { existsSync, lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Outcome, ok, shellQuote } from '../../base/index.ts';
import { realOf } from '../rights/project-path.ts';
import type { PlaceAccess } from './places.ts';
import {
  ARGUMENTS_FD,
  BEGUN,
  identityOf,
  isFolder,
  moved,
  SANDBOX_HOME,
  SANDBOX_TEMP,
  type SandboxLaunch,
  type SandboxPlan,
  STATUS_FD,
} from './plan.ts';
import { isCovered } from './project.ts';
import { systemPlaces } from './visible.ts';

/** Programs that are called by name, on the path of the sandbox. */
export const PROGRAMS = [
  'unshare',
  'mount',
  'umount',
  'pivot_root',
  'setpriv',
  'sh',
  'mkdir',
  'cp',
  'rm',
  'cat',
  'head',
  'stat',
  'env',
] as const;

const DEVICES = ['null', 'zero', 'full', 'random', 'urandom', 'tty'].map((name) => `/dev/${name}`);
const DEVICE_LINKS = ['fd', 'stdin', 'stdout', 'stderr'].map((name) => `/dev/${name}`);
/** Candidates for the folder of the new root. No readable path is in it. */
const BASES = ['/sys', '/mnt', '/media', '/srv'];
const OLD_ROOT = '/.old';
const WRITABLE_PROC = '/.proc';
const HIDDEN = '/.hidden';

interface Mount {
  target: string;
  /** A path on the host, or in the new root itself. */
  from: { host: string } | { own: string };
  access: 'read' | 'write';
  isFolder: boolean;
  isDevice?: boolean;
}

/** Returns a field of a mount table. Separators are written in octal. */
const field = (path: string): string =>
  path.replace(
    /[ \t\n\r\v\f\\#]/g,
    (sign) => `\\${sign.charCodeAt(0).toString(8).padStart(3, '0')}`,
  );

const isBelow = (folder: string, path: string): boolean => path.startsWith(`${folder}/`);

interface MountPoint {
  path: string;
  flags: string[];
}

/** Mount flags that a less privileged namespace may not remove. */
const KEPT = ['ro', 'nosuid', 'nodev', 'noexec'];

function mountPoints(): MountPoint[] {
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  return lines.flatMap((line) => {
    const [, , , , path, flags] = line.split(' ');
    if (path === undefined || flags === undefined) return [];
    const decoded = path.replace(/\\(\d{3})/g, (_, octal: string) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    );
    return [{ path: decoded, flags: flags.split(',').filter((flag) => KEPT.includes(flag)) }];
  });
}

/** Returns no mount if the source does not exist or cannot be read. */
function host(source: string, target: string, access: Mount['access'], isDevice = false): Mount[] {
  const real = realOf(source);
  if (real === undefined) return [];
  return [{ target, from: { host: real }, access, isFolder: isFolder(real), isDevice }];
}

/** Returns a mount of the project or of its places. If it fails, the sandbox fails. */
const exactly = (path: string, access: PlaceAccess, storage: string): Mount =>
  access === 'none'
    ? own(path, storage, 'read', isFolder(path))
    : { target: path, from: { host: path }, access, isFolder: isFolder(path) };

const own = (target: string, storage: string, access: Mount['access'], isFolder = true): Mount => ({
  target,
  from: { own: storage },
  access,
  isFolder,
});

/** Returns every mount, outer before inner. Of two at one path the later one stays. */
function mountsOf(plan: SandboxPlan): Mount[] {
  const { projectRoot, view } = plan;
  const all = [
    ...systemPlaces().flatMap((path) => host(path, path, 'read')),
    ...DEVICES.flatMap((path) => host(path, path, 'write', true)),
    own(SANDBOX_TEMP, SANDBOX_TEMP, 'write'),
    ...plan.shown.flatMap((path) => host(path, path, 'read')),
    exactly(projectRoot, view.root, `${HIDDEN}/project`),
    ...view.places.map(({ path, access }, at) =>
      exactly(join(projectRoot, path), access, `${HIDDEN}/place-${at}`),
    ),
    ...view.hidden.map((path, at) => own(path, `${HIDDEN}/${at}`, 'read', isFolder(path))),
    ...plan.shownLast.flatMap(({ source, target }) => host(source, target, 'read')),
    ...plan.closed.map((path, at) => own(path, `${HIDDEN}/closed-${at}`, 'read', isFolder(path))),
  ];
  return [...new Map(all.map((mount, index) => [mount.target, index])).values()]
    .sort((a, b) => a - b)
    .flatMap((index) => all[index] ?? []);
}

/** Returns where the target of a mount must be created in the new root. Undefined if it exists already. */
function storageOf(mount: Mount, earlier: readonly Mount[]): string | undefined {
  const over = earlier.findLast(({ target }) => isBelow(target, mount.target));
  if (!over) return mount.target;
  return 'own' in over.from
    ? `${over.from.own}${mount.target.slice(over.target.length)}`
    : undefined;
}

/** Returns the folders and files that the new root needs before the first mount. */
function foundations(mounts: readonly Mount[]): { folders: string[]; files: string[] } {
  const folders = ['/dev/pts', '/dev/shm', '/proc', OLD_ROOT, WRITABLE_PROC, SANDBOX_HOME];
  const files = ['/dev/ptmx'];
  mounts.forEach((mount, index) => {
    const points = [storageOf(mount, mounts.slice(0, index))];
    if ('own' in mount.from) points.push(mount.from.own);
    for (const point of points) {
      if (point !== undefined) (mount.isFolder ? folders : files).push(point);
    }
  });
  return { folders: [...folders, ...files.map((file) => join(file, '..'))], files };
}

function flagsOf(mount: Mount, points: readonly MountPoint[]): string[] {
  const { from } = mount;
  const basic = [mount.access === 'read' ? 'ro' : 'rw', 'nosuid', mount.isDevice ? '' : 'nodev'];
  if ('own' in from) return basic;
  const over = points
    .filter(({ path }) => path === '/' || path === from.host || isBelow(path, from.host))
    .reduce((a, b) => (b.path.length >= a.path.length ? b : a), { path: '', flags: [] });
  return [...basic, ...over.flags];
}

const optionsOf = (flags: readonly string[]): string => {
  const set = new Set(flags.filter(Boolean));
  if (set.has('ro')) set.delete('rw');
  return [...set].join(',');
};

/** Returns the table for one call of `mount`. */
function tableOf(
  base: string,
  mounts: readonly Mount[],
  points: readonly MountPoint[],
  { isRoot, size }: { isRoot: boolean; size: string },
): string {
  const at = (path: string) => field(`${base}${path}`);
  const proc = 'nosuid,nodev,noexec';
  // `/proc` is read-only, except files that map user ids in the last namespace. They can be written once, and
  // are written before any program runs.
  const ids = ['uid_map', 'gid_map', 'setgroups'].map((name) => `/1/${name}`);
  const processes = isRoot
    ? [`proc ${at('/proc')} proc ro,${proc} 0 0`]
    : [
        `proc ${at(WRITABLE_PROC)} proc ${proc} 0 0`,
        `${at(WRITABLE_PROC)} ${at('/proc')} none bind,ro,${proc} 0 0`,
        ...ids.map(
          (id) => `${at(`${WRITABLE_PROC}${id}`)} ${at(`/proc${id}`)} none bind,${proc} 0 0`,
        ),
      ];
  const lines = mounts.map((mount) => {
    const source = 'own' in mount.from ? at(mount.from.own) : field(mount.from.host);
    // A target below `/dev/shm` cannot be created before that is mounted.
    const extraOptions = isBelow('/dev/shm', mount.target) ? ['X-mount.mkdir'] : [];
    const options = optionsOf([...flagsOf(mount, points), ...extraOptions]);
    return `${source} ${at(mount.target)} none rbind,${options} 0 0`;
  });
  const terminals = [
    `devpts ${at('/dev/pts')} devpts newinstance,ptmxmode=0666,mode=620,nosuid,noexec 0 0`,
    `${at('/dev/pts/ptmx')} ${at('/dev/ptmx')} none bind,nosuid,noexec 0 0`,
  ];
  const memory = `tmpfs ${at('/dev/shm')} tmpfs nosuid,nodev,${size} 0 0`;
  return [...processes, ...terminals, memory, ...lines, ''].join('\n');
}

/** Mounts below a source come with their own flags, so each is made read-only itself. */
function closeBelow(
  base: string,
  mounts: readonly Mount[],
  points: readonly MountPoint[],
): string[] {
  return mounts.flatMap((mount) => {
    const { from, access, target } = mount;
    if ('own' in from) return [];
    // The source itself is included, because `mount` skips a place that came with its parent.
    const inner = points.filter(({ path }) => path === from.host || isBelow(from.host, path));
    return inner.map(({ path, flags }) => {
      const place = shellQuote(`${base}${target}${path.slice(from.host.length)}`);
      const options = optionsOf(['nosuid', 'nodev', access === 'read' ? 'ro' : 'rw', ...flags]);
      return `[ ! -e ${place} ] || did mount -n -o remount,bind,${options} ${place}`;
    });
  });
}

/** Checks that the places are the files that were judged. A link would lead elsewhere. */
function checkPlaces(base: string, plan: SandboxPlan): Outcome<string[]> {
  const { projectRoot, view } = plan;
  const expected: [path: string, identity: string][] = [];
  for (const place of view.places.filter(({ access }) => access !== 'none')) {
    const path = join(projectRoot, place.path);
    const identity = identityOf(path);
    if (identity === undefined) return moved(place);
    if (!isCovered(view.hidden, path)) expected.push([shellQuote(`${base}${path}`), identity]);
  }
  if (expected.length === 0) return ok([]);
  const paths = expected.map(([path]) => path).join(' ');
  const identities = shellQuote(expected.map(([, identity]) => identity).join('\n'));
  return ok([
    `[ "$(stat -c %d:%i ${paths})" = ${identities} ] || fail 'a path was replaced while it was being mounted'`,
  ]);
}

/** Runs inside without any right, as the first process there. Its messages are dropped. */
const INSIDE = `
cd "$1" || exit 1
shift
[ -x "$1" ] || { echo "sandbox: execvp $1: No such file or directory" >&2; exit 1; }
[ -z "\${BASH_VERSION-}" ] || set -- "$(command -v env)" -u _ "$@"
export PWD
unset OLDPWD SHLVL
eval "$(cat <&${ARGUMENTS_FD})"
echo '${BEGUN}' >&${STATUS_FD}
exec ${ARGUMENTS_FD}<&- ${STATUS_FD}>&- 9>&2 2>/dev/null
(exec 2>&9 9>&-; exec "$@")
exit $?`;

const NO_RIGHTS =
  'setpriv --no-new-privs --bounding-set=-all --inh-caps=-all --ambient-caps=-all --';

function setUp(base: string, plan: SandboxPlan, user: User): Outcome<string> {
  const mounts = mountsOf(plan);
  const points = mountPoints();
  const places = checkPlaces(base, plan);
  if (!places.ok) return places;
  const { folders, files } = foundations(mounts);
  const inRoot = (paths: readonly string[]) =>
    paths.map((path) => shellQuote(`.${path}`)).join(' ');
  const isRoot = user.uid === 0;
  const size = `size=${plan.temporaryMb}m`;
  const links = DEVICE_LINKS.filter((path) =>
    lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink(),
  );
  const asUser = `unshare --user --map-user=${user.uid} --map-group=${user.gid} --keep-caps --`;
  const script = [
    'fail() { printf \'sandbox: %s\\n\' "$*" >&2; exit 1; }',
    'did() { said=$("$@" 2>&1) || fail "$said"; }',
    'shift; mask=$(umask); umask 022',
    // The network of the sandbox has one device, which is off.
    ...(plan.network
      ? []
      : [
          `{ mount -n -t sysfs sysfs ${base} && echo 0x9 > ${base}/class/net/lo/flags || ip link set lo up; } 2>/dev/null`,
        ]),
    '{ echo sandbox > /proc/sys/kernel/hostname || hostname sandbox; } 2>/dev/null',
    `did mount -n -t tmpfs -o mode=0755,nosuid,nodev,${size} tmpfs ${base}`,
    `cd ${base} || fail 'no root'`,
    `did mkdir -p ${inRoot(folders)}`,
    ...files.map((file) => `: > ${inRoot([file])} || fail 'no root'`),
    links.length > 0 ? `did cp -P ${links.join(' ')} ./dev/` : '',
    `printf %s ${shellQuote(tableOf(base, mounts, points, { isRoot, size }))} > .${OLD_ROOT}/table`,
    `did mount -n -a -T .${OLD_ROOT}/table`,
    ...closeBelow(base, mounts, points),
    ...places.output,
    `did pivot_root . .${OLD_ROOT}`,
    `did umount -l ${OLD_ROOT} ${isRoot ? '' : WRITABLE_PROC}`,
    `did rm -r ${OLD_ROOT} ${WRITABLE_PROC}`,
    'did mount -n -o remount,bind,ro,nosuid,nodev /',
    'umask "$mask"',
    `exec ${isRoot ? '' : asUser} ${NO_RIGHTS} sh -c ${shellQuote(INSIDE)} sh ${shellQuote(plan.cwd)} "$@"`,
  ];
  return ok(`${script.join('\n')}\n`);
}

/** Variables with a meaning for the shell, which would refuse or change them. */
const RESERVED =
  /^(_|PPID|UID|EUID|GROUPS|OPTIND|LINENO|RANDOM|SRANDOM|SECONDS|EPOCH\w+|DIRSTACK|FUNCNAME|HISTCMD|SHELLOPTS|POSIXLY_CORRECT|BASH\w*)$/;

/** Returns the script that sets the environment. A variable that the shell reserves is set by a program. */
function environmentScript(env: SandboxPlan['env']): string {
  const entries = Object.entries(env);
  const isFree = (name: string) => /^[A-Za-z_]\w*$/.test(name) && !RESERVED.test(name);
  const lines = entries
    .filter(([name]) => isFree(name))
    .map(([name, value]) => `export ${name}=${shellQuote(value)}`);
  const reserved = entries.filter(([name]) => !isFree(name));
  const words = reserved.map(([name, value]) => shellQuote(`${name}=${value}`)).join(' ');
  const through = reserved.length > 0 ? [`set -- "$(command -v env)" ${words} "$@"`] : [];
  return `${[...through, ...lines].join('\n')}\n`;
}

interface User {
  uid: number;
  gid: number;
}

const currentUser = (): User => ({ uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 });

/** Returns the namespaces, which end with the parent process. */
function namespaces(network: boolean, isRoot: boolean): string[] {
  const identity = ['--user', '--map-root-user'];
  // A network belongs to root of the namespace that creates it, which an ordinary user becomes one step later.
  const first = network || isRoot ? identity : [...identity, '--', 'unshare'];
  return [
    '--pdeathsig',
    'KILL',
    '--',
    'unshare',
    ...first,
    '--mount',
    '--propagation',
    'private',
    '--pid',
    '--fork',
    '--kill-child',
    '--ipc',
    '--uts',
    ...(existsSync('/proc/self/ns/cgroup') ? ['--cgroup'] : []),
    ...(network ? [] : ['--net']),
    '--',
  ];
}

/** Returns the complete start of one child. */
export function utilLinuxLaunch(
  plan: SandboxPlan,
  user: User = currentUser(),
): Outcome<SandboxLaunch> {
  const base = BASES.find((path) => isFolder(path) && !isBelow(path, plan.cwd));
  const script = setUp(base ?? '/mnt', plan, user);
  if (!script.ok) return script;
  const length = Buffer.byteLength(script.output);
  const read = `eval "$(head -c "$1" <&${ARGUMENTS_FD})"`;
  return ok({
    file: plan.report.path ?? 'setpriv',
    args: [
      ...namespaces(plan.network, user.uid === 0),
      'sh',
      '-c',
      read,
      'sh',
      String(length),
      ...plan.command,
    ],
    options: `${script.output}${environmentScript(plan.env)}`,
    fds: [],
  });
}
