// Paths in a script are relative to the file they are written in; `@root/…` to the project.
import { isAbsolute, join, resolve } from 'node:path';
import type { Env } from './env.ts';

export function resolvePath(env: Env, written: string): string {
  const path = written.trim();
  const rooted = /^@(?:root|base)(?:\/|$)/.exec(path);
  if (rooted) return resolve(env.run.world.root, path.slice(rooted[0].length));
  return isAbsolute(path) ? resolve(path) : join(env.unit.folder, path);
}
