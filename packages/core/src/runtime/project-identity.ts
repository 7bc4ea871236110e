// Computes the identity of a project in a shared store: its id, and the digest of its items. The row of a
// thread contains both, and a worker compares them.
import { join } from 'node:path';
import { fail, type Outcome, ok } from '../base/index.ts';
import { createItemRoots, createItemsDigest, readProjectFile } from '../items/index.ts';
import { BUNDLE, type OpenProject } from './open-project.ts';

type Identified = Pick<OpenProject, 'project' | 'home' | 'clock' | 'own'>;

/** Digest functions by project, which cache the state of the last call. */
const digests = new WeakMap<Identified, () => Outcome<string>>();

/** Returns the stable id of a project. Fails with `project_unnamed` or `config_invalid`. */
export function projectId(project: string): Outcome<{ id: string; isSticky: boolean }> {
  const { id, isSticky, diagnostics, file } = readProjectFile(join(project, '.ai'));
  if (id !== undefined) return ok({ id, isSticky });
  const [wrong] = diagnostics;
  const message = wrong
    ? `the id of the project cannot be read: \`${file}\`, line ${wrong.line}: ${wrong.message}`
    : `project \`${project}\` has no id, which a shared store requires; run \`init --id\` and keep \`${file}\` with the project`;
  return fail(wrong ? 'config_invalid' : 'project_unnamed', message, { file });
}

/** Returns the id, the digest of the present items, and the tenant of the threads of this program. */
export function identify(
  open: Identified,
): Outcome<{ project: string; items: string; tenant?: string }> {
  const named = projectId(open.project);
  if (!named.ok) return named;
  const { project, home, clock } = open;
  const roots = createItemRoots(project, home, BUNDLE, clock);
  const digest = digests.get(open) ?? createItemsDigest(project, roots, clock);
  digests.set(open, digest);
  const items = digest();
  if (!items.ok) return items;
  const { tenant } = open.own;
  return ok({ project: named.output.id, items: items.output, ...(tenant && { tenant }) });
}

/** The identity of a worker's project, and whether its threads continue on the same machine. */
export interface ServedItems {
  readonly project: string;
  readonly items: string;
  readonly isSticky: boolean;
}

/** Returns the present identity. Fails with `project_unnamed` or `config_invalid`. */
export function servedItems(open: Identified): Outcome<ServedItems> {
  const [named, identity] = [projectId(open.project), identify(open)];
  if (!named.ok) return named;
  if (!identity.ok) return identity;
  const { project, items } = identity.output;
  return ok({ project, items, isSticky: named.output.isSticky });
}
