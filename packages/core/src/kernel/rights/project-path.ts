// The one place that turns a path from a model, a tool or a stranger into a place inside the project.
// Everything that touches files asks here first and uses the answer, never the text it was given.
import { lstatSync, readdirSync, realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { errnoOf, fail, type Outcome, ok } from '../../base/index.ts';

export interface ProjectPath {
  /** Real path: every symbolic link on the way is resolved. */
  absolute: string;
  /** From the project's root, with `/`, `.` for the root itself: what capability scopes match. */
  relative: string;
}

const MAX_PATH = 4096;

/** Undefined when it is not there or not for us to see. */
export const realOf = (path: string): string | undefined => {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
};

/** How the marks begin that children leave in a folder which is there for their time alone. */
export const HOLDER = 'sandbox-';

/** Is it one of those: nothing in it but marks? */
export function isHeldFolder(path: string): boolean {
  try {
    const names = readdirSync(path);
    return names.length > 0 && names.every((name) => name.startsWith(HOLDER));
  } catch {
    return false;
  }
}

/** Real path of the longest existing ancestor, plus what does not exist yet. */
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
    // A link to nothing exists as a link: writing through it would create its target.
    if (lstatSync(current, { throwIfNoEntry: false })?.isSymbolicLink()) {
      return fail('permission_denied', `path \`${path}\` goes through a dangling symbolic link`);
    }
    missing.unshift(basename(current));
  }
}

/** Where `path` really is; refused when that is outside the project. `projectRoot` is a real path. */
export function resolveProjectPath(projectRoot: string, path: string): Outcome<ProjectPath> {
  if (path === '' || path.length > MAX_PATH) {
    return fail('invalid_input', `a path must have 1 to ${MAX_PATH} characters`);
  }
  if (/[\u0000-\u001f\u007f]/.test(path)) {
    return fail('invalid_input', `path ${JSON.stringify(path)} holds a control character`);
  }
  const real = realOrNew(isAbsolute(path) ? path : resolve(projectRoot, path));
  if (!real.ok) return real;
  // Nearly always it begins with the root, which is seen at once.
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
  const shown = sep === '/' ? inside : inside.replaceAll(sep, '/');
  return ok({ absolute: real.output, relative: shown || '.' });
}
