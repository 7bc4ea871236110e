// A process that asks a provider as threads do, under limits that it shares with others:
// URL SCHEMA NAME PROVIDER LOOPS REQUESTS.
import { fail, systemClock, systemRandom } from '@kernmantle/core/base';
import { createSharedRequests } from '../../src/runtime/request-limits.ts';
import { openShared } from './shared-database.ts';

const [url = '', schema = '', name = '', provider = '', loops = '1', requests = '1'] =
  process.argv.slice(2);
const { fleet, database } = await openShared(url, schema);
const shared = createSharedRequests({
  limits: fleet,
  owner: name,
  clock: systemClock,
  random: systemRandom,
  tenantOf: () => Promise.resolve({ ok: true, output: 'acme' }),
  priceOf: () => undefined,
});

const ask = shared.share(() =>
  Promise.resolve({
    ok: true,
    output: {
      async ask(request, signal) {
        if (systemClock.monotonic() > (request.sendBy ?? 0)) throw new Error('sent too late');
        try {
          const answer = await fetch(provider, { signal, headers: { 'x-name': name } });
          await answer.text();
        } catch (error) {
          return fail('network_error', String(error));
        }
        const usage = {
          input_tokens: 1,
          output_tokens: 1,
          cache_read_tokens: 0,
          cache_write_tokens: 0,
          tokens: 2,
          context_tokens: 1,
          estimated: false,
        };
        return { ok: true, output: { content: [], stop: 'end', usage, model: 'm' } };
      },
    },
  }),
);

const signal = new AbortController().signal;
const line = await ask(
  { model: 'm', provider: 'p', protocol: 'anthropic', provider_tool: '', plain_tool: '' },
  { surface: 'test', name } as never,
);
let answered = 0;
async function loop(): Promise<void> {
  for (let count = 0; count < Number(requests); ) {
    const answer = line.ok
      ? await line.output.ask({ maxTokens: 1, reading: { requestBytes: 1 } } as never, signal)
      : line;
    // Who stood still for too long has ended its request, and asks again.
    if (!answer.ok && answer.error.code === 'timeout') continue;
    if (!answer.ok) throw new Error(JSON.stringify(answer.error));
    [answered, count] = [answered + 1, count + 1];
  }
}
await Promise.all(Array.from({ length: Number(loops) }, loop));
await shared.settled();
await database.close();
process.stdout.write(`answered ${answered}\n`);
