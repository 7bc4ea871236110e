// Writes into package-lock.json the optional platform binaries that the resolver left out (a mirror
// may lack some of them), so that `npm ci` accepts the file on every platform. Run after changing
// dependencies: `rm package-lock.json && npm install --package-lock-only && node scripts/complete-lock.js`.
import { readFileSync, writeFileSync } from 'node:fs';

const file = new URL('../package-lock.json', import.meta.url);
const lock = JSON.parse(readFileSync(file, 'utf8'));
const OS = 'android darwin freebsd linux netbsd openbsd openharmony sunos aix win32'.split(' ');
const CPU = 'arm64 x64 ia32 arm riscv64 ppc64 s390x loong64 mips64el wasm32'.split(' ');

for (const [path, entry] of Object.entries({ ...lock.packages })) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const nested = `${path}/node_modules/${name}`;
    const flat = `node_modules/${name}`;
    if (lock.packages[nested]?.version || lock.packages[flat]?.version) continue;
    const words = name.split(/[-/]/);
    const os = words.find((word) => OS.includes(word));
    const cpu = words.find((word) => CPU.includes(word) || word.startsWith('arm'));
    if (!os && !cpu) continue;
    lock.packages[flat] = {
      version: version.replace(/^[\^~]/, ''),
      ...(entry.dev ? { dev: true } : {}),
      optional: true,
      // An unknown platform name also prevents the installation of the entry here.
      os: [os ?? 'none'],
      ...(cpu ? { cpu: [cpu.replace(/eabi(hf)?$/, '')] } : {}),
    };
  }
}
const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
lock.packages = Object.fromEntries(sorted);
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
