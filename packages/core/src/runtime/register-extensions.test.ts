import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fail, ok } from '../base/index.ts';
import type { ModelPort, ScriptPort } from '../harness/index.ts';
import type { Kind, Primitive } from '../kernel/index.ts';
import type { Store } from '../store/index.ts';
import type { Extension, StoreDriver } from './extension.ts';
import type { RuntimeContext } from './open-project.ts';
import { registerExtensions } from './register-extensions.ts';

const CORE = ['http_client', 'function'];
const primitive = (name: string): Primitive => ({ name, run: async () => ok({ output: name }) });
const kind = (name: string): Kind => ({
  name,
  actions: ['run'],
  prepare: () => fail('not_found', name),
});
const driver = {} as StoreDriver;
const port = {} as ScriptPort;
const rooms = {} as RuntimeContext;

const register = (extensions: readonly Extension[], from = () => rooms) =>
  registerExtensions(extensions, from, { primitives: CORE, kinds: ['thread'] });

const brings = (name: string, ...names: string[]): Extension => ({
  name,
  primitives: () => names.map(primitive),
});

const WRONG: readonly [string, readonly Extension[], string][] = [
  ['no name', [{ name: '' }], 'an extension has no name; give it one'],
  [
    'one name twice',
    [{ name: 'a' }, { name: 'a' }],
    'the extension `a` is provided by `a` and by `a`; remove one of them',
  ],
  [
    'one primitive in two extensions',
    [brings('a', 'x'), brings('b', 'y', 'x')],
    'the primitive `x` is provided by `a` and by `b`; remove one of them',
  ],
  [
    'one primitive twice in one extension',
    [brings('a', 'x', 'x')],
    'the primitive `x` is provided by `a` and by `a`; remove one of them',
  ],
  [
    'a primitive of core',
    [brings('a', 'function')],
    'the primitive `function` is provided by `core` and by `a`; remove one of them',
  ],
  [
    'a kind of core',
    [{ name: 'a', kinds: () => [kind('thread')] }],
    'the kind `thread` is provided by `core` and by `a`; remove one of them',
  ],
  [
    'two script ports',
    [
      { name: 'a', script: () => port },
      { name: 'b', script: () => port },
    ],
    'the script port is provided by `a` and by `b`; remove one of them',
  ],
  [
    'two drivers for one scheme',
    [
      { name: 'a', stores: { 'x:': driver } },
      { name: 'b', stores: { 'x:': driver } },
    ],
    'the driver for `x:` is provided by `a` and by `b`; remove one of them',
  ],
  [
    'a driver for no scheme',
    [{ name: 'a', stores: { postgres: driver } }],
    'the extension `a` has a driver for `postgres`, which is not a URL scheme; write it as in `postgres:`',
  ],
];

test.each(WRONG)('%s is refused', (_, extensions, message) => {
  expect(register(extensions)).toEqual(fail('config_invalid', message));
});

test('extensions are refused exactly if two of them provide the same primitive', () => {
  const names = fc.array(fc.constantFrom('a', 'b', 'c', 'd', 'function'), { maxLength: 3 });
  fc.assert(
    fc.property(fc.array(names, { maxLength: 4 }), (lists) => {
      const all = [...CORE, ...lists.flat()];
      const done = register(lists.map((list, at) => brings(`e${at}`, ...list)));
      expect(done.ok).toBe(new Set(all).size === all.length);
      if (done.ok) expect(done.output.primitives.map(({ name }) => name)).toEqual(lists.flat());
    }),
  );
});

test('registration asks for nothing of the project', () => {
  const never = (): never => {
    throw new Error('too early');
  };
  const every: Extension = {
    name: 'every',
    primitives: () => [primitive('x')],
    kinds: () => [kind('k')],
    script: never,
    stores: { 'x:': driver },
    model: never,
    close: never,
  };
  expect(register([every], never)).toMatchObject({ ok: true });
});

test('wrappers of the model run in the order of registration, and what adds none changes nothing', async () => {
  const wrapping = (name: string): Extension => ({
    name,
    model: (given, _store, model) => {
      expect(given).toBe(rooms);
      return async (...call) => {
        const answer = await model(...call);
        return answer.ok ? answer : fail(`${answer.error.code}>${name}`, '');
      };
    },
  });
  const model: ModelPort = async () => fail('core', '');
  const store = {} as Store;
  const registered = register([wrapping('a'), { name: 'none' }, wrapping('b')]);
  if (!registered.ok) throw new Error(registered.error.detail.message);
  const wrapped = registered.output.model(store, model);
  const request = [{}, {}] as unknown as Parameters<ModelPort>;
  expect(await wrapped(...request)).toMatchObject({ error: { code: 'core>a>b' } });
  const bare = register([{ name: 'none' }]);
  expect(bare.ok && bare.output.model(store, model)).toBe(model);
});

test('the script port is opened once; without one a script fails', async () => {
  let opened = 0;
  const script = () => {
    opened += 1;
    return port;
  };
  const registered = register([{ name: 'a' }, { name: 'b', script }]);
  if (!registered.ok) throw new Error(registered.error.detail.message);
  expect([registered.output.script(), registered.output.script()]).toEqual([port, port]);
  expect(opened).toBe(1);
  const none = register([]);
  if (!none.ok) throw new Error(none.error.detail.message);
  const request = {} as Parameters<ScriptPort>[0];
  expect(await none.output.script()(request)).toMatchObject({
    text: '',
    fault: { code: 'script_unavailable' },
  });
  expect(await none.output.script().readPlan('show 1', [])).toMatchObject({
    problems: [{ line: 1 }],
  });
});

test('every extension is closed once, in the order of registration', async () => {
  const closed: string[] = [];
  const closing = (name: string): Extension => ({
    name,
    close: async () => void closed.push(name),
  });
  const registered = register([closing('a'), { name: 'none' }, closing('b')]);
  if (registered.ok) await registered.output.close();
  expect(closed).toEqual(['a', 'b']);
});
