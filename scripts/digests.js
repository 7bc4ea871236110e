// Writes bundle/digests.json, the digest of every file of the bundle, with which a program detects changed files.
// `--check` writes nothing and fails if the list is not current.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const bundle = fileURLToPath(new URL('../bundle', import.meta.url));
const list = join(bundle, 'digests.json');

function filesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesBelow(path);
    return entry.isFile() && path !== list && !entry.name.startsWith('.') ? [path] : [];
  });
}

const name = (path) => relative(bundle, path).replaceAll('\\', '/');
const digest = (path) => createHash('sha256').update(readFileSync(path)).digest('hex');
const entries = filesBelow(bundle).map((path) => [name(path), digest(path)]);
entries.sort(([a], [b]) => (a < b ? -1 : 1));
const text = `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`;

if (process.argv.includes('--check')) {
  let current = '';
  try {
    current = readFileSync(list, 'utf8');
  } catch {
    // A missing list is not current.
  }
  if (current !== text) {
    process.stderr.write('bundle/digests.json is not current: run `npm run digests`\n');
    process.exit(1);
  }
} else {
  writeFileSync(list, text);
  process.stderr.write(`bundle/digests.json lists ${entries.length} files\n`);
}
