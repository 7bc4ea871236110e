// What may not be written because of its name, and was made all the same where its folder is open: it is
// moved out when the child has ended, and links that it replaced are put back.
import { readlinkSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type AccessQuestion, accessIn, findUnwritable, isWithin, type Places } from './places.ts';
import { statOf, takeOut } from './quarantine.ts';

type Links = ReadonlyMap<string, string>;

const targetOf = (path: string): string => {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // no link, or not there
  }
};

export const linksAt = (projectRoot: string, paths: readonly string[]): Links =>
  new Map(paths.map((path) => [path, targetOf(join(projectRoot, path))]));

function attempt(act: () => void): void {
  try {
    act();
  } catch {
    // gone, or not ours to change: what was made is named in the answer
  }
}

/** Answers with what was made, whether or not it could be moved. */
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
  const made = findUnwritable(projectRoot, question).filter(
    (path) => accessOf(path) === 'write' && !isAsBefore(path),
  );
  const outer = made.filter((path) => !made.some((one) => one !== path && isWithin(one, path)));
  for (const path of outer) attempt(() => takeOut(projectRoot, path, to));
  for (const [path, target] of links) {
    const place = join(projectRoot, path);
    if (target !== '' && !statOf(place)) attempt(() => symlinkSync(target, place));
  }
  return outer;
}
