import type { Json, Outcome } from '@kernmantle/core/base';
import { describe as describeMarks, EMPTY, makeValue } from '@kernmantle/core/flow';
import { ofToday } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { raise, ScriptFault } from '../fault.ts';
import type { CodeHelper, JsArgument, JsCall, JsEngine, JsResult } from '../world.ts';
import { createJsEngine } from './engine.ts';

const engines: JsEngine[] = [];
function open(): JsEngine {
  const engine = createJsEngine();
  engines.push(engine);
  return engine;
}
afterEach(() => {
  for (const engine of engines.splice(0)) engine.close();
});

const data = (value: Json): JsArgument => ({ kind: 'data', data: value });
const callOf = (
  source: string,
  given: Readonly<Record<string, JsArgument>> = {},
  more: Partial<JsCall> = {},
): JsCall => ({
  source,
  parameters: Object.entries(given).map(([name, value]) => ({ name, value })),
  mx: () => ({}),
  helpers: [],
  timeoutMs: undefined,
  descriptor: EMPTY,
  ...more,
});
const valueOf = (outcome: Outcome<JsResult>): Json | undefined => {
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.error));
  return outcome.output.value;
};
/** Returns a loaded engine, which runs a block without waiting synchronously. */
async function ready(): Promise<JsEngine> {
  const engine = open();
  valueOf(await engine.run(callOf('0')));
  return engine;
}
/** Returns the result of a synchronous block. */
async function now(
  source: string,
  given?: Record<string, JsArgument>,
  engine?: JsEngine,
): Promise<Json | undefined> {
  const outcome = (engine ?? (await ready())).run(callOf(source, given));
  if (outcome instanceof Promise) throw new Error('the block waits');
  return valueOf(outcome);
}
const helper = (name: string, more: Partial<CodeHelper>): CodeHelper => ({
  name,
  parameters: ['x'],
  source: undefined,
  call: () => makeValue(null),
  ...more,
});

describe('what a block yields', () => {
  test.each<[string, Json | undefined]>([
    ['1 + 1', 2],
    ['return 1 + 1', 2],
    ['1 + 1;', 2],
    ['(\n{ k: 1 })', { k: 1 }],
    ['{ k: 1, l: 2 }', { k: 1, l: 2 }],
    ['const a = 2; a * 3', 6],
    ['const a = 2\na\n  * 3', 6],
    ['let t = 0\nfor (const x of [1, 2]) t += x\nt', 3],
    ['const a = 1 // one\na // the end', 1],
    ['const s = "a;b"\ns.length', 3],
    ['const r = /;}/.source\nr', ';}'],
    ['const t = `a${`b;${1}`}`\nt', 'ab;1'],
    ['const f = () => { return 1 }\nf()', 1],
    ['function f() { return 4 } f()', 4],
    ['if (true) { return 7 }\n8', 7],
    ['const a = 1\nconst b = a\n+ 1\nreturn b', 2],
  ])('%j yields %j', async (source, expected) => {
    expect(await now(source)).toEqual(expected);
  });

  test.each([
    'const a = 1',
    'let t = 0; for (const x of [1]) t += x',
    'if (1) { 5 }',
    'console.log("x"); const y = 2',
    'const x = 1\nif (x)\n  console.log(x)',
    '',
    '// nothing',
  ])('%j yields nothing', async (source) => {
    expect(await now(source)).toBeUndefined();
  });

  test('printed lines are collected, those for stderr apart', async () => {
    const outcome = (await ready()).run(callOf('console.log("a", [1]); console.error("b")'));
    expect(outcome).toEqual({
      ok: true,
      output: { value: undefined, logs: ['a [1]'], warnings: ['b'], descriptor: EMPTY },
    });
  });

  test('a value that is waited for without need is there at once', async () => {
    expect(await now('await Promise.resolve(4) + 1')).toBe(5);
    expect(await now('await (Promise.resolve(4))')).toBe(4);
    expect(await now('const f = async () => 3; return f()')).toBe(3);
    expect(await now('[{ then: (done) => done(9) }][0]')).toBe(9);
  });

  test('a block that waits for a timer is a promise', async () => {
    const outcome = (await ready()).run(callOf('await new Promise((r) => setTimeout(r, 1, 5))'));
    expect(outcome).toBeInstanceOf(Promise);
    expect(valueOf(await outcome)).toBe(5);
  });

  test('numbers that JSON has no word for stay numbers, wherever they stand', async () => {
    expect(await now('[0 / 0, { "a,b": [1, -1 / 0] }]')).toEqual([NaN, { 'a,b': [1, -Infinity] }]);
    expect(await now('0 / 0')).toBeNaN();
    expect(await now('[Number.isNaN(x[0].k), x[1]]', { x: data([{ k: NaN }, Infinity]) })).toEqual([
      true,
      Infinity,
    ]);
  });

  test('what is not data becomes text, is left out, or is refused', async () => {
    expect(await now('[10n, new Date(0), undefined, () => 1]')).toEqual([
      '10',
      '1970-01-01T00:00:00.000Z',
      null,
      null,
    ]);
    expect(await now('({ f() {}, s: Symbol("x"), u: undefined, n: null })')).toEqual({ n: null });
    for (const source of ['() => 1', 'Symbol("x")', 'const a = []; a[0] = a; return a']) {
      expect((await ready()).run(callOf(source))).toMatchObject({
        ok: false,
        error: {
          code: 'tool_failed',
          detail: { message: expect.stringContaining('cannot return') },
        },
      });
    }
  });

  test('any JSON goes in and comes out unchanged', async () => {
    const engine = await ready();
    await fc.assert(
      fc.asyncProperty(fc.jsonValue({ stringUnit: 'binary' }), async (value) => {
        const given = JSON.parse(JSON.stringify(value)) as Json;
        expect(await now('return x', { x: data(given) }, engine)).toEqual(given);
      }),
    );
  });
});

describe('what a block is given', () => {
  test('missing arguments are undefined, names with a dash become words', async () => {
    expect(await now('typeof a', { a: { kind: 'undefined' } })).toBe('undefined');
    expect(await now('a_b + class_', { 'a-b': data(1), class: data(2) })).toBe(3);
  });

  test('data with a text of its own converts to that text and stays data', async () => {
    const x: JsArgument = { kind: 'textual', data: { a: 1 }, text: '{ "a": 1 }', isStage: false };
    expect(await now('[String(x), `${x}`, "" + x, JSON.parse(x).a, x.a]', { x })).toEqual([
      '{ "a": 1 }',
      '{ "a": 1 }',
      '{ "a": 1 }',
      1,
      1,
    ]);
    expect(await now('[JSON.stringify(x), typeof x.trim, Object.keys(x)]', { x })).toEqual([
      '{"a":1}',
      'undefined',
      ['a'],
    ]);
    expect(await now('return x', { x })).toEqual({ a: 1 });
  });

  test('in a stage it has the string methods that the data has not', async () => {
    const list: JsArgument = { kind: 'textual', data: [1, 2], text: ' [1, 2]\n', isStage: true };
    expect(
      await now('[x.trim(), x.map((n) => n * 2), x.length, x.includes(2)]', { x: list }),
    ).toEqual(['[1, 2]', [2, 4], 2, true]);
    const map: JsArgument = { kind: 'textual', data: { a: 1 }, text: '{"a":1}', isStage: true };
    expect(await now('[x.length, x.split(":")[0], x.a, JSON.stringify(x)]', { x: map })).toEqual([
      7,
      '{"a"',
      1,
      '{"a":1}',
    ]);
  });

  test('a kept value shows text, data and facts', async () => {
    const x: JsArgument = {
      kind: 'kept',
      text: '[1]',
      data: [1],
      type: 'array',
      mx: { labels: ['pii'] },
    };
    expect(await now('[x.text, x.data[0], x.mx.labels]', { x })).toEqual(['[1]', 1, ['pii']]);
  });

  test('the frame is for reading', async () => {
    const engine = await ready();
    const mx = () => ({ op: { type: 'show', labels: ['a'] } });
    const text =
      'ctx.op.type = "x"; ctx.more = 1; try { ctx.op.labels.push("b") } catch {}; return [mx.op, mx.more ?? null]';
    expect(engine.run(callOf(text, {}, { mx }))).toMatchObject({
      output: { value: [{ type: 'show', labels: ['a'] }, null] },
    });
  });

  test('the frame is asked for only when the block reads it', async () => {
    let asked = 0;
    const mx = () => ({ try: ++asked });
    const engine = await ready();
    void engine.run(callOf('1', {}, { mx }));
    expect(asked).toBe(0);
    expect(engine.run(callOf('mx.try', {}, { mx }))).toMatchObject({ output: { value: 1 } });
    expect(engine.run(callOf('ctx.try', {}, { mx }))).toMatchObject({ output: { value: 2 } });
    expect(engine.run(callOf('mx + 1', { mx: data(1) }, { mx }))).toMatchObject({
      output: { value: 2 },
    });
    expect(asked).toBe(2);
  });

  test('what a block changes in its arguments stays in the block', async () => {
    const given = Object.freeze([1, 2]) as unknown as Json;
    expect(await now('x.push(3); x.length', { x: data(given) })).toBe(3);
    expect(given).toEqual([1, 2]);
  });

  test('one global object for all blocks of an engine, another for the next engine', async () => {
    const engine = await ready();
    await now('globalThis.n = 1', {}, engine);
    expect(await now('n + 1', {}, engine)).toBe(2);
    expect(await now('typeof n')).toBe('undefined');
  });

  test('the globals of the language, console, timers, addresses, encodings, and nothing else', async () => {
    expect(await now('new URL("?b=1#h", "http://a.b:80/c").href')).toBe('http://a.b/c?b=1#h');
    expect(
      await now(
        'const u = new URL("http://a.b/?q=1"); u.searchParams.append("r", "x y&"); u.port = "8"; [u.search, u.host]',
      ),
    ).toEqual(['?q=1&r=x+y%26', 'a.b:8']);
    expect(await now('new TextDecoder().decode(new TextEncoder().encode("é😀"))')).toBe('é😀');
    expect(
      await now('const a = [1]; a.push(a); const b = structuredClone(a); b !== a && b[1] === b'),
    ).toBe(true);
    expect(await now('["b", "ä", "C", "a"].sort((x, y) => x.localeCompare(y)).join("")')).toBe(
      'aäbC',
    );
    expect(
      await now(
        '[(1234.5).toLocaleString("en"), new Date(0).toLocaleDateString("en", { weekday: "long", timeZone: "UTC" })]',
      ),
    ).toEqual(['1,234.5', 'Thursday']);
    expect(await now('global === globalThis')).toBe(true);
    const names = ['process', 'require', 'module', 'fetch', 'Buffer', 'setImmediate'];
    for (const name of [...names, 'WebAssembly', 'SharedArrayBuffer', 'crypto', 'performance']) {
      expect(await now(`typeof ${name}`)).toBe('undefined');
    }
  });
});

describe('functions of the script', () => {
  test('a js body is a plain function, also one that calls another', async () => {
    const helpers = [
      helper('up', { parameters: ['s'], source: 'return s.toUpperCase()' }),
      helper('both', { parameters: ['a', 'b'], source: 'up(a) + b' }),
    ];
    expect((await ready()).run(callOf('both("x", "y")', {}, { helpers }))).toMatchObject({
      output: { value: 'Xy' },
    });
  });

  test('any other body is called back, at once or later', async () => {
    const seen: Json[] = [];
    const call = (values: readonly Json[]) => {
      seen.push([...values]);
      return makeValue({ sum: 3 });
    };
    const helpers = [
      helper('now', { call }),
      helper('later', { call: async (values) => await Promise.resolve(call(values)) }),
    ];
    const engine = await ready();
    expect(engine.run(callOf('now(1, "b").sum', {}, { helpers }))).toMatchObject({
      output: { value: 3 },
    });
    expect(valueOf(await engine.run(callOf('(await later([2])).sum', {}, { helpers })))).toBe(3);
    expect(seen).toEqual([[1, 'b'], [[2]]]);
  });

  test('a block may run inside the function that another block calls', async () => {
    const engine = await ready();
    const call = (values: readonly Json[]) => {
      const inner = engine.run(callOf('x + 1', { x: data(values[0] ?? 0) })) as Outcome<JsResult>;
      return makeValue(valueOf(inner) ?? null);
    };
    expect(
      engine.run(callOf('f(1) + f(2)', {}, { helpers: [helper('f', { call })] })),
    ).toMatchObject({
      output: { value: 5 },
    });
  });

  test('a failure can be caught, keeps its code when it is not, and a refusal always stays one', async () => {
    const engine = await ready();
    const run = (source: string, call: () => never) =>
      engine.run(callOf(source, {}, { helpers: [helper('f', { call })] }));
    const missing = () => raise('not_found', 'no such thing');
    expect(run('try { f() } catch (e) { return e.message }', missing)).toMatchObject({
      output: { value: 'no such thing' },
    });
    expect(run('f()', missing)).toMatchObject({ error: { code: 'not_found' } });
    const denied = () => raise('permission_denied', 'not for you');
    expect(run('try { f() } catch { return 1 }', denied)).toMatchObject({
      ok: false,
      error: { code: 'permission_denied' },
    });
    expect(() => denied()).toThrow(ScriptFault);
  });
});

describe('how a block fails', () => {
  test.each<[string, string, string]>([
    ['throw new Error("bad\\nsecond")', 'tool_failed', 'bad'],
    ['throw "text"', 'tool_failed', 'text'],
    ['throw null', 'tool_failed', 'null'],
    ['await null.x', 'tool_failed', "cannot read property 'x' of null"],
    ['nope()', 'tool_failed', "'nope' is not defined"],
    ['const f = () => f(); f()', 'tool_failed', 'stack overflow'],
    [
      'import("fs")',
      'invalid_input',
      '`import(…)` is not available in js blocks; use `node { … }`',
    ],
    ['const a = ;', 'invalid_input', "the js block does not parse: Unexpected token ';'"],
    ['}) ; (() => {', 'invalid_input', "the js block does not parse: Unexpected token '}'"],
  ])('%j: %s', async (source, code, message) => {
    expect((await ready()).run(callOf(source))).toMatchObject({
      error: { code, detail: { message } },
    });
  });

  test('a syntax error says in which line of the block', async () => {
    expect((await ready()).run(callOf('const a = 1\nconst b = ;'))).toMatchObject({
      error: { detail: { line: 2 } },
    });
  });

  test.each([
    'for (;;);',
    'await 1; for (;;);',
    '(async () => { for (;;) await 0 })()',
    'await new Promise(() => {})',
    'setInterval(() => {}, 1); await new Promise(() => {})',
    'String.prototype.trim = () => { for (;;); }; "a".trim()',
    '/^(a+)+$/.test("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!")',
    'return { toJSON() { for (;;); } }',
    'setTimeout(() => { for (;;); }, 1); await new Promise(() => {})',
  ])('%j ends by its time limit, and the next block runs', async (source) => {
    const engine = await ready();
    const outcome = await engine.run(callOf(source, {}, { timeoutMs: 30 }));
    expect(outcome).toMatchObject({ ok: false, error: { code: 'timeout' } });
    expect(valueOf(await engine.run(callOf('1 + 1')))).toBe(2);
  });

  test('a replaced method cannot make a block without loops endless', async () => {
    const engine = await ready();
    await now('Array.prototype.map = function () { for (;;); }; 1', {}, engine);
    const outcome = engine.run(callOf('x.map((n) => n)', { x: data([1]) }, { timeoutMs: 30 }));
    expect(outcome).toMatchObject({ error: { code: 'timeout' } });
  });

  test('closing ends what waits and stops every timer', async () => {
    const engine = await ready();
    const waiting = engine.run(callOf('setInterval(() => {}, 1); await new Promise(() => {})'));
    engine.close();
    expect(await waiting).toMatchObject({ error: { code: 'cancelled' } });
    expect(await engine.run(callOf('1'))).toMatchObject({ error: { code: 'cancelled' } });
  });

  test('a promise that nobody waits for and a timer that throws do not end the process', async () => {
    const engine = await ready();
    await now('Promise.reject(new Error("lost")); 1', {}, engine);
    await now(
      'class P extends Promise {}; P.reject(1); Object.setPrototypeOf(P.reject(2), null); 1',
      {},
      engine,
    );
    const outcome = await engine.run(
      callOf('setTimeout(() => { throw new Error("late") }, 1); await new Promise(() => {})'),
    );
    expect(outcome).toMatchObject({ error: { detail: { message: 'late' } } });
  });

  test('printing without end is cut off', async () => {
    const outcome = (await ready()).run(
      callOf('for (let i = 0; i < 200; i++) console.log("x".repeat(10000))'),
    );
    const { logs } = (outcome as { output: JsResult }).output;
    expect(logs.length).toBeLessThan(120);
    expect(logs.at(-1)).toBe('… truncated');
  });

  test.each(['', 'await Promise.resolve(); '])(
    'what is thrown is asked once for its message (%j)',
    async (before) => {
      const source = `${before}let n = 0; throw { get message() { return n++ === 0 ? "x" : { a: 1 } } }`;
      expect(await open().run(callOf(source))).toMatchObject({
        error: { code: 'tool_failed', detail: { message: 'x' } },
      });
    },
  );

  test('what only node blocks have is said to be there', async () => {
    expect(await open().run(callOf('new Intl.NumberFormat()'))).toMatchObject({
      error: {
        code: 'tool_failed',
        detail: { message: expect.stringContaining('use `node { … }`') },
      },
    });
  });
});

describe('memory', () => {
  const FILLING = [
    'const all = []; for (;;) all.push({})',
    'const s = "x".repeat(2 ** 20); const all = []; for (;;) all.push(s + all.length)',
    'const all = []; for (;;) all.push(new Uint8Array(2 ** 20).fill(1))',
    'let f = () => 1; for (;;) f = ((g) => () => g)(f)',
    'new Uint8Array(2 ** 30)',
    'await 1; const all = []; for (;;) all.push({})',
  ];
  test.each(ofToday(FILLING, 1))(
    '%j ends with a fault, and the next block runs',
    async (source) => {
      const engine = await ready();
      expect(await engine.run(callOf(source))).toMatchObject({
        error: { code: 'tool_failed', detail: { error: 'out_of_memory' } },
      });
      expect(valueOf(await engine.run(callOf('1 + 1')))).toBe(2);
    },
  );

  const ENDLESS = [
    // The memory is too full even for an error, and the search is one step of the engine.
    'await 1; const all = []; for (;;) all.push([all])',
    '"a".repeat(4e6).indexOf("a".repeat(2e6) + "b")',
  ];
  test.each(ofToday(ENDLESS, 1))(
    '%j ends by its time limit at the latest, and the next block runs',
    async (source) => {
      const engine = await ready();
      const outcome = await engine.run(callOf(source, {}, { timeoutMs: 1500 }));
      expect(outcome).toMatchObject({ ok: false });
      expect(valueOf(await engine.run(callOf('1 + 1')))).toBe(2);
    },
  );

  test('data that is larger than the memory is a fault', async () => {
    const x = data('é'.repeat(40 * 2 ** 20));
    expect(await open().run(callOf('x.length', { x }))).toMatchObject({
      error: { detail: { error: 'out_of_memory' } },
    });
  });
});

describe('marks of what went in', () => {
  const secret = describeMarks({ labels: ['secret'], taint: ['src:file'] });
  const marksOf = async (engine: JsEngine, source: string, more: Partial<JsCall> = {}) => {
    const outcome = await engine.run(callOf(source, {}, more));
    return outcome.ok ? [outcome.output.value, outcome.output.descriptor.taint] : outcome;
  };

  test.each([
    ['globalThis.stash = "k"', 'stash'],
    ['Array.prototype.stash = "k"', '[].stash'],
    [
      'setTimeout(() => { globalThis.stash = "k" }, 1); 1',
      'await new Promise((r) => setTimeout(r, 20)); return stash',
    ],
    ['class P extends Promise {}; globalThis.p = P.resolve("k"); 1', 'await p'],
  ])('are on what another block gets back: %s', async (put, get) => {
    const engine = open();
    expect(await marksOf(engine, '1')).toEqual([1, []]);
    await marksOf(engine, put, { descriptor: secret });
    expect(await marksOf(engine, get)).toEqual(['k', ['secret', 'src:file']]);
  });

  test('of what a function of the script gave, and on what it is given', async () => {
    const seen: (readonly string[])[] = [];
    const call: CodeHelper['call'] = (_values, { taint }) => {
      seen.push(taint);
      return makeValue('k', { descriptor: secret });
    };
    const engine = open();
    const helpers = [helper('f', { call })];
    expect(await marksOf(engine, 'f(); f(); 1', { helpers })).toEqual([1, ['secret', 'src:file']]);
    expect(seen).toEqual([[], ['secret', 'src:file']]);
  });

  test('nothing becomes trusted by having been near what is', async () => {
    const engine = open();
    await marksOf(engine, '1', { descriptor: describeMarks({ labels: ['trusted'] }) });
    expect(await marksOf(engine, '2')).toEqual([2, []]);
  });
});

describe('blocks that are all operators', () => {
  test.each<[string, Record<string, Json>, Json | undefined]>([
    ['return x + 1', { x: 1 }, 2],
    ['x * 2 + y', { x: 2, y: 'a' }, '4a'],
    ['`${x}-${y}`', { x: 'é😀', y: true }, 'é😀-true'],
    ['const a = x + 1; return a % 3 === 0 ? "fizz" : a', { x: 2 }, 'fizz'],
    ['x > 1', { x: 2 }, true],
    ['x', { x: '\u{feff}a\0b\ud800' }, '\u{feff}a\0b\ud800'],
    ['x + "\\0"', { x: 'a' }, 'a\0'],
    ['x + y', { x: '', y: '\u{feff}' }, '\u{feff}'],
    ['x / 0', { x: 1 }, Infinity],
    ['x + y', { x: 'a', y: null }, 'anull'],
    ['x + y', { x: 'a', y: [1, 2] }, 'a1,2'],
    ['x ?? "none"', {}, undefined],
  ])('%j of %j is %j', async (source, given, expected) => {
    const values = Object.entries(given).map(([name, value]) => [name, data(value)] as const);
    const outcome = await open().run(callOf(source, Object.fromEntries(values)));
    if (outcome.ok) expect(outcome.output.value).toEqual(expected);
    else
      expect([outcome.error.detail.message, expected]).toEqual(["'x' is not defined", undefined]);
  });

  test('are what they say whatever was replaced before, and fail as others do', async () => {
    const engine = await ready();
    await now(
      'const lie = () => { for (;;); }; String.prototype.toString = lie; Number.prototype.valueOf = lie; Array.prototype[Symbol.iterator] = lie; 1',
      {},
      engine,
    );
    expect(engine.run(callOf('"v" + x', { x: data(1) }))).toMatchObject({
      output: { value: 'v1' },
    });
    expect(engine.run(callOf('const a = b; const b = x; return a', { x: data(1) }))).toMatchObject({
      error: { code: 'tool_failed', detail: { error: 'ReferenceError' } },
    });
  });
});
