// What of the system a sandboxed child can see: a list of what is needed to run programs, nothing
// else. The home folder, other projects, sockets and other people's files do not exist in there.
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

/** Of `/etc` what names, certificates, time and the linker need; no passwords, keys or host setup. */
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

/** To be shown read-only. */
export const systemPlaces = (): string[] => [...SYSTEM, ...ETC].filter(existsSync);

/** Parts of a toolchain's folder that running it needs; its credentials and settings are not. */
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

/** `…/bin` and what stands beside it. Next to a person's own `~/bin` that would be their home. */
function toolchain(folder: string, home: string): string[] {
  const prefix = dirname(folder);
  if (!/^(s?bin|shims)$/.test(basename(folder)) || isInside(home, prefix)) return [folder];
  return [folder, ...TOOLCHAIN.map((part) => join(prefix, part)).filter(existsSync)];
}

/**
 * Folders outside the system that hold programs on the path, read-only. Never the home folder
 * itself or anything above it.
 */
export function toolchainFolders(folders: readonly string[], home: string): string[] {
  const realHome = realOf(home) ?? home;
  const found = folders.flatMap((folder) => {
    const real = realOf(folder);
    if (real === undefined || SYSTEM.some((system) => isInside(real, system))) return [];
    return [...toolchain(folder, realHome), ...toolchain(real, realHome)];
  });
  return [...new Set(found)].filter(
    (path) => path !== '/' && !isInside(realHome, path) && !isInside(home, path),
  );
}
