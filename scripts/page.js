// Builds the web page into `dist/page`: names with hashes, a `.gz` beside each file, no inline code and no files of
// other servers. It fails if the first load is larger than `MAX_FIRST_LOAD`.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';

const root = fileURLToPath(new URL('..', import.meta.url));
const outDir = process.argv[2] ?? join(root, 'dist', 'page');
/** Maximum compressed size of everything that the list of threads loads. */
const MAX_FIRST_LOAD = 110 * 1024;

/** Replaces modules of Node by an empty one. The page uses no part of core that needs them (`tests/architecture.test.ts`). */
const withoutNode = {
  name: 'without-node',
  enforce: 'pre',
  resolveId: (id) =>
    id.startsWith('node:')
      ? { id: `\0${id}`, moduleSideEffects: false, syntheticNamedExports: 'names' }
      : undefined,
  load: (id) =>
    id.startsWith('\0node:') ? 'export const names = {}; export default names;' : undefined,
};

await build({
  root: join(root, 'packages', 'web', 'src', 'page'),
  configFile: false,
  logLevel: 'warn',
  plugins: [withoutNode],
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  build: {
    outDir,
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: 'manifest.json',
  },
});

const files = readdirSync(outDir, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !entry.name.endsWith('.gz'))
  .map((entry) => join(entry.parentPath, entry.name));
const sizes = new Map();
for (const file of files) {
  const packed = gzipSync(readFileSync(file), { level: 9 });
  writeFileSync(`${file}.gz`, packed);
  sizes.set(file, packed.length);
}
const manifest = JSON.parse(readFileSync(join(outDir, 'manifest.json'), 'utf8'));
const first = new Set([join(outDir, 'index.html')]);
const visit = (name) => {
  const { file, css = [], imports = [] } = manifest[name];
  for (const part of [file, ...css]) first.add(join(outDir, part));
  for (const next of imports) visit(next);
};
visit('index.html');
const total = [...first].reduce((sum, file) => sum + (sizes.get(file) ?? 0), 0);
const all = [...sizes.values()].reduce((sum, size) => sum + size, 0);
process.stdout.write(
  `page: first load ${(total / 1024).toFixed(1)} KB, all of it ${(all / 1024).toFixed(1)} KB (gzip)\n`,
);
if (total > MAX_FIRST_LOAD) {
  process.stderr.write(`the first load is over ${MAX_FIRST_LOAD / 1024} KB\n`);
  process.exit(1);
}
