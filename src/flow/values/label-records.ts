// What files are known to be made of. A value written to a file leaves its marks here, under real
// path and content hash; whoever reads the same content gets them back. Append-only lines, so several
// processes can write, and a kill in the middle costs at most one torn line.
import { closeSync, fstatSync, lstatSync, readSync } from 'node:fs';
import {
  errnoOf,
  fail,
  isObject,
  messageOf,
  type Outcome,
  ok,
  parseJson,
  textsAt,
} from '../../base/index.ts';
import { folderLabel } from './file-labels.ts';
import { carries, type Descriptor, describe, mergeAll } from './labels.ts';
import { createRecordFile, openRecords } from './record-file.ts';

export type LabelRecords = ReturnType<typeof createLabelRecords>;

interface History {
  readonly byHash: Map<string, Descriptor>;
  latest: Descriptor;
}

function toLine(path: string, hash: string, descriptor: Descriptor): string {
  const { labels, taint, sources, capability, policyContext } = descriptor;
  return `${JSON.stringify({ path, hash, labels, taint, sources, capability, policyContext })}\n`;
}

const UNTRUSTED = describe({ labels: ['untrusted'] });

interface Line {
  path: string;
  hash: string;
  descriptor: Descriptor;
}

/** A damaged line whose path can still be read counts as a record of untrusted data. */
function readLine(text: string, root: string): Line | undefined {
  const parsed = parseJson(text);
  if (parsed.ok && isObject(parsed.output)) {
    const line = parsed.output;
    const { path, hash, capability } = line;
    if (typeof path === 'string' && typeof hash === 'string') {
      const descriptor = describe({
        labels: textsAt(line, 'labels'),
        // Older lines name folders of the project by their absolute path.
        taint: textsAt(line, 'taint').map((mark) => folderLabel(root, mark)),
        sources: textsAt(line, 'sources'),
        capability: typeof capability === 'string' ? capability : null,
        policyContext: textsAt(line, 'policyContext'),
      });
      return { path, hash, descriptor };
    }
  }
  const salvaged = /^\{"path":("(?:[^"\\]|\\.)*")/.exec(text)?.[1];
  const path = salvaged === undefined ? undefined : parseJson(salvaged);
  return path?.ok && typeof path.output === 'string'
    ? { path: path.output, hash: '', descriptor: UNTRUSTED }
    : undefined;
}

const CHUNK = 1 << 16;

/** Reads what others have appended since the last look; starts over when the file was replaced. */
function createTail(file: string, onLine: (text: string) => void, onReset: () => void) {
  let [offset, inode] = [0, 0];
  let rest: Buffer = Buffer.alloc(0);

  function readFrom(descriptor: number, size: number): void {
    while (offset < size) {
      const chunk = Buffer.alloc(Math.min(CHUNK, size - offset));
      const count = readSync(descriptor, chunk, 0, chunk.length, offset);
      if (count === 0) return;
      offset += count;
      rest = Buffer.concat([rest, chunk.subarray(0, count)]);
      for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
        onLine(rest.subarray(0, end).toString('utf8'));
        rest = rest.subarray(end + 1);
      }
    }
  }

  return {
    /** True when the last line has no end: somebody was cut off while writing it. */
    isTorn: () => rest.length > 0,
    /** Throws what the file system throws, except that a missing file is an empty one. */
    catchUp(): void {
      // Asked at every file that is read: mostly there is nothing, or nothing new.
      const there = lstatSync(file, { throwIfNoEntry: false });
      if (!there || (there.isFile() && there.ino === inode && there.size === offset)) return;
      let descriptor: number;
      try {
        descriptor = openRecords(file);
      } catch (error) {
        if (errnoOf(error) === 'ENOENT') return;
        throw error;
      }
      try {
        const { size, ino } = fstatSync(descriptor);
        if (size < offset || ino !== inode) {
          [offset, inode, rest] = [0, ino, Buffer.alloc(0)];
          onReset();
        }
        readFrom(descriptor, size);
      } finally {
        closeSync(descriptor);
      }
    },
  };
}

/** Other content at a known path: nobody can say what it is made of, but suspicion stays. */
function suspicion(descriptor: Descriptor, path: string): Descriptor | undefined {
  const labels = ['untrusted', 'secret'].filter((label) => carries(descriptor, label));
  return labels.length === 0 ? undefined : describe({ labels, sources: [`file:${path}`] });
}

/** `root`: real path of the project. */
export function createLabelRecords(file: string, root: string) {
  const known = new Map<string, History>();
  const keep = ({ path, hash, descriptor }: Line): void => {
    const history = known.get(path) ?? { byHash: new Map(), latest: descriptor };
    history.latest = descriptor;
    history.byHash.set(hash, descriptor);
    known.set(path, history);
  };
  const tail = createTail(
    file,
    (text) => {
      const line = readLine(text, root);
      if (line) keep(line);
    },
    () => known.clear(),
  );

  return {
    root,
    /** To be called before the file is written, so that no unlabelled copy ever exists. */
    remember(
      realPath: string,
      contentHash: string,
      written: Descriptor | readonly Descriptor[],
    ): Outcome<null> {
      const descriptor = mergeAll([written].flat() as readonly Descriptor[]);
      try {
        tail.catchUp();
        const history = known.get(realPath);
        if (history?.latest === descriptor && history.byHash.get(contentHash) === descriptor) {
          return ok(null);
        }
        const line = toLine(realPath, contentHash, describe({ ...descriptor, replaced: [] }));
        // A torn line before ours is closed first, so that ours stays readable.
        const records = createRecordFile(file);
        try {
          records.append(tail.isTorn() ? `\n${line}` : line);
        } finally {
          records.close();
        }
        tail.catchUp();
        return ok(null);
      } catch (error) {
        return fail('internal_error', `cannot keep labels: ${messageOf(error)}`, { file });
      }
    },
    /** Undefined: nothing is known about this file. */
    recall(realPath: string, contentHash: string): Descriptor | undefined {
      try {
        tail.catchUp();
      } catch {
        // INVARIANT: records that cannot be read never make anything trusted.
        return UNTRUSTED;
      }
      const history = known.get(realPath);
      return history?.byHash.get(contentHash) ?? (history && suspicion(history.latest, realPath));
    },
  };
}
