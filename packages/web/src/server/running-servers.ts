// Registry of running servers. Each writes a note in the folder of the user while it runs, so that
// a command can create a link for it.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { getOwn, isObject, parseJson, plainText } from '@kernmantle/core/base';

interface ServedPage {
  readonly project: string;
  readonly port: number;
  readonly url: string;
  readonly pid: number;
}

const NAME = /^server-\d{1,5}-\d+\.json$/;

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // `EPERM` means that the process exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function readNote(file: string): ServedPage | undefined {
  try {
    const parsed = parseJson(readFileSync(file, 'utf8'), 2);
    if (!parsed.ok || !isObject(parsed.output)) return undefined;
    const [port, pid] = [getOwn(parsed.output, 'port'), getOwn(parsed.output, 'pid')];
    const { project, url } = parsed.output;
    if (typeof port !== 'number' || typeof pid !== 'number') return undefined;
    return { port, pid, project: plainText(project), url: plainText(url) };
  } catch {
    return undefined;
  }
}

export function openRunningServers(home: string) {
  const folder = join(home, 'web');
  /** Lists running servers. Files of dead processes are removed. */
  function list(): ServedPage[] {
    let names: string[];
    try {
      names = readdirSync(folder).filter((name) => NAME.test(name));
    } catch {
      return [];
    }
    return names.flatMap((name) => {
      const note = readNote(join(folder, name));
      if (note && isAlive(note.pid)) return [note];
      rmSync(join(folder, name), { force: true });
      return [];
    });
  }
  return {
    list,
    /** Writes a note about this server. Returns the function that removes it. */
    note(page: Omit<ServedPage, 'pid'>): () => void {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const file = join(folder, `server-${page.port}-${process.pid}.json`);
      writeFileSync(file, JSON.stringify({ ...page, pid: process.pid }), { mode: 0o600 });
      return () => rmSync(file, { force: true });
    },
  };
}
