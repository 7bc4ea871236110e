// Keeps the lines of a person in `.ai/state/chat-history` of the project, one JSON text a line. Only this user can read
// the file. A line with a known secret is not kept.
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseJson, readRegularFile } from '@kernmantle/core/base';

const [MAX_ENTRIES, MAX_BYTES] = [500, 4_000_000];

/** `hasSecret` tells whether a line contains a known secret. A file that cannot be read or written is no error. */
export function openHistory(project: string, hasSecret: (line: string) => boolean) {
  const file = join(project, '.ai', 'state', 'chat-history');
  const entries: string[] = [];
  function load(): string[] {
    const read = readRegularFile(file, { max: MAX_BYTES, followsLinks: false });
    if ('problem' in read) return [];
    return read.bytes
      .toString('utf8')
      .split('\n')
      .flatMap((line) => {
        const entry = parseJson(line);
        return entry.ok && typeof entry.output === 'string' ? [entry.output] : [];
      });
  }
  entries.push(...load().slice(-MAX_ENTRIES));
  return {
    entries,
    add(line: string): void {
      if (line.trim() === '' || line === entries.at(-1) || hasSecret(line)) return;
      entries.push(line);
      if (entries.length > MAX_ENTRIES) entries.shift();
      try {
        mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
        // Another chat of the project can have added lines since.
        const all = [...load(), line].slice(-MAX_ENTRIES);
        const text = all.map((one) => `${JSON.stringify(one)}\n`).join('');
        // A crash leaves the old file or the new one.
        writeFileSync(`${file}.${process.pid}`, text, { mode: 0o600 });
        renameSync(`${file}.${process.pid}`, file);
      } catch {
        // The line is kept for this chat.
      }
    },
  };
}
