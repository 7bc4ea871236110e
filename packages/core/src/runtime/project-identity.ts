// What a project is called where machines share a store, and which items it has: what a thread's row
// says, and what whoever takes it compares.
import { join } from 'node:path';
import { fail, type Outcome, ok } from '../base/index.ts';
import { createItemRoots, createItemsDigest, readProjectFile } from '../items/index.ts';
import { BUNDLE, type OpenProject } from './open-project.ts';

type Identified = Pick<OpenProject, 'project' | 'home' | 'clock' | 'own'>;

/** What each project looked like at the last question; gone with it. */
const digests = new WeakMap<Identified, () => Outcome<string>>();

/** The stable id of a project; what to do when it has none. */
export function projectId(project: string): Outcome<{ id: string; isSticky: boolean }> {
  const { id, isSticky, diagnostics, file } = readProjectFile(join(project, '.ai'));
  if (id !== undefined) return ok({ id, isSticky });
  const [wrong] = diagnostics;
  const message = wrong
    ? `the id of the project cannot be read: \`${file}\`, line ${wrong.line}: ${wrong.message}`
    : `the project \`${project}\` has no id, which a store on a server needs; \`init --id\` makes one in \`${file}\`: keep it with the project`;
  return fail(wrong ? 'config_invalid' : 'project_unnamed', message, { file });
}

/** Id and items as they are now, and whose threads this program starts. */
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

/** What a worker has: the same, and whether its threads go on where they began. */
export interface ServedItems {
  readonly project: string;
  readonly items: string;
  readonly isSticky: boolean;
}

/** As it is now; what is wrong with the project's id is said. */
export function servedItems(open: Identified): Outcome<ServedItems> {
  const [named, known] = [projectId(open.project), identify(open)];
  if (!named.ok) return named;
  if (!known.ok) return known;
  const { project, items } = known.output;
  return ok({ project, items, isSticky: named.output.isSticky });
}
