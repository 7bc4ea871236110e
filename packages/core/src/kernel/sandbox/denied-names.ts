// Moves out files with a denied name that a child created in a writable folder, after the end of the child.
// Links that the child replaced are restored.
import { readlinkSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type AccessQuestion, accessIn, findUnwritable, isWithin, type Places } from './places.ts';
import { statOf, takeOut } from './quarantine.ts';

type Links = ReadonlyMap<string, string>;

const targetOf = (path: string): string => {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // not a link, or missing
  }
};

export const linksAt = (projectRoot: string, paths: readonly string[]): Links =>
  new Map(paths.map((path) => [path, targetOf(join(projectRoot, path))]));

function attempt(act: () => void): void {
  try {
    act();
  } catch {
    // The file was removed or cannot be changed. The result of the call lists it.
  }
}

/** Returns the created files, whether or not they could be moved. */
export function takeDenied(
  projectRoot: string,
  question: AccessQuestion,
  before: { view: Places; links: Links },
  to: string,
): string[] {
  const { view, links } = before;
  const isAsBefore = (path: string): boolean =>
    links.has(path) && links.get(path) === targetOf(join(projectRoot, path));
  const accessOf = accessIn(view);
  const created = findUnwritable(projectRoot, question).filter(
    (path) => accessOf(path) === 'write' && !isAsBefore(path),
  );
  const outer = created.filter(
    (path) => !created.some((one) => one !== path && isWithin(one, path)),
  );
  for (const path of outer) attempt(() => takeOut(projectRoot, path, to));
  for (const [path, target] of links) {
    const place = join(projectRoot, path);
    if (target !== '' && !statOf(place)) attempt(() => symlinkSync(target, place));
  }
  return outer;
}
