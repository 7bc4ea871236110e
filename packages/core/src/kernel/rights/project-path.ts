// Resolves a path from a model, a tool or an untrusted text to a path inside of the project. All code that
// uses files calls it first and uses its answer, never the original text.
import { lstatSync, readdirSync, realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { errnoOf, fail, type Outcome, ok } from '../../base/index.ts';

export interface ProjectPath {
  /** Real path: every symbolic link on the way is resolved. */
  absolute: string;
  /** Path relative to the project's root, with `/`; `.` for the root. Capability scopes match it. */
  relative: string;
}

const MAX_PATH = 4096;

/** Returns the real path. Undefined if it does not exist or cannot be read. */
export const realOf = (path: string): string | undefined => {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
};

/** Prefix of the mark files that children leave in a folder that exists only during their run. */
export const HOLDER = 'sandbox-';

/** True if the folder contains nothing but such marks. */
export function isProtectedFolder(path: string): boolean {
  try {
    const names = readdirSync(path);
    return names.length > 0 && names.every((name) => name.startsWith(HOLDER));
  } catch {
    return false;
  }
}

/** Returns the real path of the longest existing ancestor, plus the missing rest. */
function realOrNew(path: string): Outcome<string> {
  const missing: string[] = [];
  for (let current = path; ; current = dirname(current)) {
    try {
      const real = realpathSync.native(current);
      return ok(missing.length === 0 ? real : join(real, ...missing));
    } catch (error) {
      const code = errnoOf(error);
      if (code === 'ENOTDIR') {
        return fail('invalid_input', `path \`${path}\` goes through a file as if it were a folder`);
      }
      if (code !== 'ENOENT') {
        return fail('permission_denied', `path \`${path}\` cannot be resolved: ${code}`);
      }
    }
    // A link without a target exists as a link: writing through it would create its target.
    if (lstatSync(current, { throwIfNoEntry: false })?.isSymbolicLink()) {
      return fail('permission_denied', `path \`${path}\` goes through a dangling symbolic link`);
    }
    missing.unshift(basename(current));
  }
}

/**
 * Returns the real path. Refuses a path outside of the project with `permission_denied`. `projectRoot`
 * must be a real path.
 */
export function resolveProjectPath(projectRoot: string, path: string): Outcome<ProjectPath> {
  if (path === '' || path.length > MAX_PATH) {
    return fail('invalid_input', `a path must have 1 to ${MAX_PATH} characters`);
  }
  if (/[\u0000-\u001f\u007f]/.test(path)) {
    return fail('invalid_input', `path ${JSON.stringify(path)} contains a control character`);
  }
  const real = realOrNew(isAbsolute(path) ? path : resolve(projectRoot, path));
  if (!real.ok) return real;
  // Nearly always the path begins with the root, which is a fast check.
  const isBelow = real.output.startsWith(projectRoot) && real.output[projectRoot.length] === sep;
  const inside = isBelow
    ? real.output.slice(projectRoot.length + 1)
    : relative(projectRoot, real.output);
  if (inside === '..' || inside.startsWith(`..${sep}`) || isAbsolute(inside)) {
    return fail('permission_denied', `path \`${path}\` leads out of the project`, {
      missing: 'fs.absolute',
      attempted: path,
    });
  }
  const relativePath = sep === '/' ? inside : inside.replaceAll(sep, '/');
  return ok({ absolute: real.output, relative: relativePath || '.' });
}
