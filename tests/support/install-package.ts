// Replaces `npm install NAME` in an example of a page: copies a package of this repository with its dependencies.
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const FROM = fileURLToPath(new URL('../../node_modules', import.meta.url));
const names = process.argv.slice(2);
const seen = new Set<string>();
for (let name = names.pop(); name !== undefined; name = names.pop()) {
  const from = join(FROM, name);
  if (seen.has(name) || !existsSync(join(from, 'package.json'))) continue;
  seen.add(name);
  cpSync(from, join('node_modules', name), { recursive: true });
  const { dependencies = {} } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8')) as {
    dependencies?: Record<string, string>;
  };
  names.push(...Object.keys(dependencies));
}
process.stdout.write(`added ${seen.size} packages\n`);
