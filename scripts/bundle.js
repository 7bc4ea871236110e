// Puts the modules of `src/` together into few files: hundreds of small ones cost more to find and
// link than to run. What is loaded on demand stays apart, and so do the dependencies, except those
// that nearly every command needs.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'vite';

const root = fileURLToPath(new URL('..', import.meta.url));
const outDir = process.argv[2] ?? `${root}/dist`;

await build({
  root,
  configFile: false,
  logLevel: 'warn',
  ssr: { external: true, noExternal: ['yaml', 'commander', '@cfworker/json-schema'] },
  build: {
    ssr: true,
    outDir,
    emptyOutDir: false,
    target: 'node22',
    minify: false,
    rollupOptions: {
      input: {
        index: `${root}/src/index.ts`,
        'cli/main': `${root}/src/cli/main.ts`,
        'yaml-library': `${root}/src/base/yaml-library.ts`,
      },
      output: {
        entryFileNames: '[name].js',
        chunkFileNames: 'chunks/[name]-[hash].js',
      },
    },
  },
});

// Every command reads the shipped policy, many the other settings: they are read here, once.
const { parseYaml } = await import(pathToFileURL(`${root}/src/base/yaml.ts`).href);
const shipped = [
  'policy.yaml',
  ...readdirSync(`${root}/bundle/config`).map((name) => `config/${name}`),
];
const known = shipped.map((name) => {
  const text = readFileSync(`${root}/bundle/${name}`, 'utf8');
  return [text, parseYaml(text).value];
});
writeFileSync(`${outDir}/known-yaml.json`, JSON.stringify(known));
