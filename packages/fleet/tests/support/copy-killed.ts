// Copies a registry, and is killed in the middle: after so many parts were sent, or just before the end.
import { ok, systemClock } from '@kernmantle/core/base';
import { copyRegistry } from '../../src/copy/registry.ts';

const [file = '', to = '', parts = ''] = process.argv.slice(2);
const answer = await copyRegistry({
  from: { file },
  to: to.startsWith('postgres') ? { address: to } : { file: to },
  clock: systemClock,
  identity: Buffer.alloc(32, 1),
  rename: (project) => ok({ project }),
  progress(done) {
    if (done === Number(parts)) process.kill(process.pid, 'SIGKILL');
  },
});
console.log(JSON.stringify(answer));
