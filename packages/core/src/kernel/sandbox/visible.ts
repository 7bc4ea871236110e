// Lists the part of the system that a sandboxed child can read: only files that programs need to run. The
// home folder, other projects, sockets and files of other people do not exist inside.
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isInside } from '../../base/index.ts';
import { realOf } from '../rights/project-path.ts';

const SYSTEM = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/nix/store',
  '/run/current-system',
];

/** Files of `/etc` for names, certificates, time and the linker, without passwords, keys or host setup. */
const ETC = [
  'alternatives',
  'ca-certificates',
  'group',
  'hosts',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'localtime',
  'mime.types',
  'nsswitch.conf',
  'passwd',
  'pki/tls',
  'pki/ca-trust',
  'protocols',
  'resolv.conf',
  'services',
  'ssl/certs',
  'ssl/cert.pem',
  'ssl/openssl.cnf',
  'static',
  'timezone',
].map((name) => join('/etc', name));

/** Returns the system paths that a child can read. */
export const systemPlaces = (): string[] => [...SYSTEM, ...ETC].filter(existsSync);

/** Parts of a toolchain's folder that programs need, without credentials and settings. */
const TOOLCHAIN = [
  'bin',
  'sbin',
  'lib',
  'lib64',
  'libexec',
  'shims',
  'versions',
  'version',
  'plugins',
];

export const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
};

/** Returns a `bin` folder and the parts of its toolchain. If the home folder is beside it, only the `bin` folder. */
function toolchain(folder: string, home: string): string[] {
  const prefix = dirname(folder);
  if (!/^(s?bin|shims)$/.test(basename(folder)) || isInside(home, prefix)) return [folder];
  return [folder, ...TOOLCHAIN.map((part) => join(prefix, part)).filter(existsSync)];
}

/** Returns readable folders for the programs on the path, never the home folder itself or one above it. */
export function toolchainFolders(folders: readonly string[], home: string): string[] {
  const realHome = realOf(home) ?? home;
  const readable = folders.flatMap((folder) => {
    const real = realOf(folder);
    if (real === undefined || SYSTEM.some((system) => isInside(real, system))) return [];
    return [...toolchain(folder, realHome), ...toolchain(real, realHome)];
  });
  return [...new Set(readable)].filter(
    (path) => path !== '/' && !isInside(realHome, path) && !isInside(home, path),
  );
}
