// Which places of the project a sandboxed child may write: exactly where its caller holds `fs.write`.
// Rights are globs that only a verifier can read, so it is asked, place by place: a folder is
// writable when a name nobody could have guessed may be written in it and below it.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fail, type Outcome, ok } from '../base/index.ts';

export interface Place {
  /** From the project's root. */
  path: string;
  access: 'read' | 'write';
}

export interface WritablePlaces {
  root: 'read' | 'write';
  /** Where the answer differs from that of the folder above; outer before inner. */
  places: Place[];
}

/** Not looked into: theirs is the answer of the folder above, or `sandbox-project` decides. */
const SKIPPED = new Set(['.ai', '.git', 'node_modules']);
const MAX_ENTRIES = 5000;
const MAX_DEPTH = 6;
const MAX_PLACES = 64;

interface Folder {
  path: string;
  access: 'read' | 'write';
  depth: number;
}

function entriesOf(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return []; // unreadable for us, unreadable in there
  }
}

/** `mayWrite` answers for one path; `unguessable` is a fresh random name. */
export function writablePlaces(
  projectRoot: string,
  mayWrite: (path: string) => boolean,
  unguessable: string,
): Outcome<WritablePlaces> {
  const folderAccess = (path: string): Place['access'] => {
    const inside = path === '' ? unguessable : `${path}/${unguessable}`;
    return mayWrite(inside) && mayWrite(`${inside}/${unguessable}`) ? 'write' : 'read';
  };
  const root = folderAccess('');
  const places: Place[] = [];
  const queue: Folder[] = [{ path: '', access: root, depth: 0 }];
  let seen = 0;
  // Breadth first: when the project is too large to ask everywhere, what is left out lies deepest,
  // and there the answer of the folder above holds.
  for (const folder of queue) {
    for (const entry of entriesOf(join(projectRoot, folder.path))) {
      if (++seen > MAX_ENTRIES) break;
      // A link is never mounted: it could be made to point anywhere.
      if (SKIPPED.has(entry.name) || !(entry.isDirectory() || entry.isFile())) continue;
      const path = folder.path === '' ? entry.name : `${folder.path}/${entry.name}`;
      const access = entry.isDirectory() ? folderAccess(path) : mayWrite(path) ? 'write' : 'read';
      if (access !== folder.access) places.push({ path, access });
      if (entry.isDirectory() && folder.depth < MAX_DEPTH) {
        queue.push({ path, access, depth: folder.depth + 1 });
      }
    }
  }
  if (places.length > MAX_PLACES) {
    return fail(
      'permission_denied',
      `\`fs.write\` covers more than ${MAX_PLACES} separate places, too many to mount; grant whole folders`,
      { missing: 'fs.write' },
    );
  }
  return ok({ root, places });
}
