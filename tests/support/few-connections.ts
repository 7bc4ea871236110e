// Runs a process with a limit of a few connections that opens many at once. It prints the number of successful calls
// and the reason of the first failed one.
import { closeSync, openSync } from 'node:fs';
import { ok, systemClock } from '@kernmantle/core/base';
import { createHttpPrimitive } from '../../packages/core/src/kernel/http/http-client.ts';
import type { PrimitiveCall } from '../../packages/core/src/kernel/primitive.ts';

const [url = '', calls = '', room = ''] = process.argv.slice(2);
const http = createHttpPrimitive({ clock: systemClock, isHostAllowed: () => true });
const tool = { id: 't', dir: '/', requires: [], env: [] };
const call = (): PrimitiveCall => ({
  tool: { ...tool, source: 'bundle', effect: 'read', sandbox: 'strict' },
  config: { url, mode: 'stream' },
  parameters: {},
  sinks: [],
  verify: () => ok(null),
  signal: new AbortController().signal,
  projectRoot: '/',
  timeoutMs: 20_000,
  secrets: [],
});

// All modules are loaded before the limit is reached.
await http.run(call());
const files: number[] = [];
try {
  for (;;) files.push(openSync('/dev/null', 'r'));
} catch {
  for (const file of files.splice(0, Number(room))) closeSync(file);
}
const done = await Promise.all(Array.from({ length: Number(calls) }, () => http.run(call())));
const failed = done.find((outcome) => !outcome.ok);
const reason = failed && !failed.ok ? failed.error.detail.message : '';
process.stdout.write(JSON.stringify({ well: done.filter((outcome) => outcome.ok).length, reason }));
http.close?.();
