import { expect, test } from 'vitest';
import { ok, systemClock } from '../../base/index.ts';
import type { Library } from '../../items/index.ts';
import { shippedSinks } from '../primitives/shipped.ts';
import type { SinkContext } from '../sink.ts';
import { createSinks, type SinkPorts } from './stream-sinks.ts';

const ports: SinkPorts = {
  // `return` is built in: no library is asked for it.
  library: {} as Library,
  signatures: () => ({ allowsUnsigned: false, isRead: () => false }),
  factories: shippedSinks({ clock: systemClock, isHostAllowed: () => false }),
  moduleSink: () => () => {
    throw new Error('no module here');
  },
};
const { signal } = new AbortController();
const context: SinkContext = {
  projectRoot: '/nowhere',
  threadId: undefined,
  verify: () => ok(null),
  signal,
};
const config = { stream: { destinations: [{ type: 'return' }] } };
const events = [{ data: 'a' }, { data: 'b' }, { data: 'c' }];

async function reportOf(more: Partial<SinkContext>) {
  const made = await createSinks(config, ports, { ...context, ...more });
  if (!made.ok) throw new Error(made.error.detail.message);
  const [sink] = made.output.sinks;
  await sink?.write(events.slice(0, 1));
  await sink?.write(events.slice(1));
  return { delivered: made.output.delivered(), report: await sink?.close() };
}

test('events are counted one by one and in batches alike', async () => {
  const { delivered, report } = await reportOf({});
  expect(delivered).toBe(3);
  expect(report).toEqual({ type: 'return', delivered: 3, dropped: 0, events });
});

test('a caller that reads the stream itself is told how much came, and given no second copy', async () => {
  const { delivered, report } = await reportOf({ isReadByCaller: true });
  expect(delivered).toBe(3);
  expect(report).toEqual({ type: 'return', delivered: 3, dropped: 0 });
});

test('a wrong `return` is refused, whoever reads', async () => {
  const wrong = { stream: { destinations: [{ type: 'return', max_size: 'many' }] } };
  for (const isReadByCaller of [true, false]) {
    const made = await createSinks(wrong, ports, { ...context, isReadByCaller });
    expect(made).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
  }
});
