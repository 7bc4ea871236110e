// Puts the modules of `src/` together into few files: hundreds of small ones cost more to find and
// link than to run. What is loaded on demand stays apart, and so do the dependencies, except the one
// that nearly every command needs.
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const root = fileURLToPath(new URL('..', import.meta.url));
const outDir = process.argv[2] ?? `${root}/dist`;

await build({
  root,
  configFile: false,
  logLevel: 'warn',
  ssr: { external: true, noExternal: ['yaml'] },
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
