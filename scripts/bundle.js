// Puts the modules of all packages together into few files, because hundreds of small files take longer to find and
// link than to run. Modules that load on demand stay separate, and so do the dependencies, except those that nearly
// every command needs.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'vite';

const root = fileURLToPath(new URL('..', import.meta.url));
/** First the folder to write, then more programs to include: the tests have some, users have none. */
const [outDir = `${root}/dist`, ...programs] = process.argv.slice(2);

/** A module that reads an SQL file beside it gets the text instead, because the package has no such files. */
const SQL_FILE = /readFileSync\(new URL\('([^']+\.sql)', import\.meta\.url\), 'utf8'\)/g;
const sqlTexts = {
  name: 'sql-texts',
  enforce: 'pre',
  transform: (code, id) =>
    code.replaceAll(SQL_FILE, (_, path) =>
      JSON.stringify(readFileSync(new URL(path, pathToFileURL(id)), 'utf8')),
    ),
};

const bundle = (input, chunks) =>
  build({
    root,
    configFile: false,
    logLevel: 'warn',
    plugins: [sqlTexts],
    ssr: {
      external: true,
      noExternal: [/^@kernmantle\//, 'yaml', 'commander', '@cfworker/json-schema'],
    },
    build: {
      ssr: true,
      outDir,
      emptyOutDir: false,
      target: 'node22',
      minify: false,
      rollupOptions: {
        input,
        // An entry exports its own names alone. What it shares with chunks is in a chunk.
        preserveEntrySignatures: 'strict',
        output: {
          entryFileNames: '[name].js',
          chunkFileNames: `${chunks}/[name]-[hash].js`,
        },
      },
    },
  });

await bundle(
  {
    index: `${root}/packages/kernmantle/src/index.ts`,
    testing: `${root}/packages/kernmantle/src/testing.ts`,
    'cli/main': `${root}/packages/kernmantle/src/cli/main.ts`,
    'yaml-library': `${root}/packages/core/src/base/yaml-library.ts`,
  },
  'chunks',
);
// Each program has its own chunks. Shared chunks would be smaller but more, so `km` would start later.
if (programs.length > 0) {
  const named = programs.map((path) => [`programs/${basename(path, '.ts')}`, `${root}/${path}`]);
  await bundle(Object.fromEntries(named), 'programs');
}

// Every command reads the shipped policy and many read the other settings, so the build parses them once.
const { parseYaml } = await import(pathToFileURL(`${root}/packages/core/src/base/yaml.ts`).href);
const shipped = [
  'policy.yaml',
  ...readdirSync(`${root}/bundle/config`).map((name) => `config/${name}`),
];
const known = shipped.map((name) => {
  const text = readFileSync(`${root}/bundle/${name}`, 'utf8');
  return [text, parseYaml(text).value];
});
writeFileSync(`${outDir}/known-yaml.json`, JSON.stringify(known));
