// Known ways out of a JavaScript context. Each block calls `check` with the objects that it obtained; the
// result names every object from outside of the realm of the blocks.
import { createContext, runInContext } from 'node:vm';
import { EMPTY, makeValue } from '@kernmantle/core/flow';
import { afterAll, describe, expect, test } from 'vitest';
import { raise } from '../fault.ts';
import type { CodeHelper, JsArgument, JsCall } from '../world.ts';
import { createJsEngine } from './engine.ts';

const DETECTOR = `
let found = '';
const look = (x, name) => {
  if (x === null || (typeof x !== 'object' && typeof x !== 'function')) return;
  let top = x;
  for (let p = x; p !== null; p = Object.getPrototypeOf(p)) top = p;
  if (top !== x && top !== Object.prototype) found += name + ' is of another realm; ';
  try {
    const made = x.constructor.constructor('return typeof process')();
    if (typeof made === 'string' && made !== 'undefined') found += name + ' leads to process; ';
  } catch {}
};
const check = (x, name = 'it') => { look(x, name); if (x !== null && x !== undefined) look(Object(x).constructor, name + '.constructor'); };
const deep = (run) => { const f = (n) => { try { f(n + 1) } catch (e) { check(e, 'overflow') } try { check(run(), 'result') } catch (e) { check(e, 'error') } }; f(0) };
`;

const TRICKS: readonly [string, string][] = [
  ['this', 'check(this); check(globalThis); check((function () { return this })())'],
  ['constructor of an argument', 'check(data); check(data.list); check(kept.mx); check(kept)'],
  [
    'constructor of a textual argument',
    'check(input); check(input.trim); check(input[Symbol.toPrimitive]); check(input.toString)',
  ],
  ['prototype chain of arguments', 'for (let p = input; p; p = Object.getPrototypeOf(p)) check(p)'],
  ['a string argument', 'check(text); check(text.constructor)'],
  ['arguments object', 'check(arguments); for (const x of arguments) check(x)'],
  [
    'caller of the caller',
    'function f() { return f.caller } try { check(f()); check(arguments.callee.caller) } catch (e) { check(e) }',
  ],
  ['thrown syntax error', 'try { JSON.parse("{") } catch (e) { check(e) }'],
  ['thrown type error', 'try { null.x } catch (e) { check(e) }'],
  ['failing function of the script', 'try { refuse() } catch (e) { check(e); check(e.stack) }'],
  [
    'result of a function of the script',
    'check(back({ a: [1] })); check(back); check(back([]).list)',
  ],
  [
    'promise of a function of the script',
    'const p = later(1); check(p); check(p.then); const r = await p; check(r)',
  ],
  ['rejected promise of a function', 'try { await rejects() } catch (e) { check(e) }'],
  ['function of the script as constructor', 'try { check(new back(1)) } catch (e) { check(e) }'],
  [
    'arguments that throw while they cross',
    'try { back({ get a() { throw check } }) } catch (e) { check(e) } try { back({ toJSON() { throw [1] } }) } catch (e) { check(e) }',
  ],
  ['a cycle handed to a function', 'const a = {}; a.a = a; try { back(a) } catch (e) { check(e) }'],
  [
    'console',
    'check(console); check(console.log); check(console.log("x")); check(console.constructor)',
  ],
  [
    'console with hostile values',
    'console.log({ toJSON() { throw 1 }, toString() { throw 2 } } === 1, { get x() { check(this); return 1 } })',
  ],
  [
    'console with a proxy',
    'console.log(new Proxy({}, { get(t) { check(t); return undefined }, ownKeys(t) { check(t); return [] } }))',
  ],
  [
    'timers',
    'const t = setTimeout(() => {}, 1); check(t); check(setTimeout); check(clearTimeout(t)); check(setInterval)',
  ],
  [
    'what a timer is called with',
    'await new Promise((r) => setTimeout(function (...a) { check(this); for (const x of a) check(x); try { check(arguments.callee.caller) } catch (e) { check(e) } r() }, 1, {}))',
  ],
  [
    'bad timer arguments',
    'try { setTimeout({ valueOf() { throw 1 } }) } catch (e) { check(e) } try { setTimeout(check, { valueOf() { check(this); return 1 } }) } catch (e) { check(e) }',
  ],
  ['Function constructor', 'try { check(Function("return this")()) } catch (e) { check(e) }'],
  [
    'async and generator function constructors',
    'for (const f of [async () => {}, function* () {}, async function* () {}]) try { check(f.constructor("return this")) } catch (e) { check(e) }',
  ],
  [
    'eval, direct and indirect',
    'try { check(eval("this")) } catch (e) { check(e) } try { check((0, eval)("this")) } catch (e) { check(e) }',
  ],
  [
    'import by a detour',
    'try { check(Function("return imp" + "ort(`fs`)")()) } catch (e) { check(e) }',
  ],
  [
    'prepareStackTrace',
    'Error.prepareStackTrace = (e, frames) => { check(e); check(frames); for (const f of frames) { check(f); check(f.getThis()); check(f.getFunction()) } return frames }; check(new Error("x").stack); try { null.x } catch (e) { check(e.stack) }',
  ],
  [
    'prepareStackTrace of a replaced Error',
    'const own = Error; globalThis.Error = { prepareStackTrace(e, f) { check(e); check(f); return f } }; try { null.x } catch (e) { check(e.stack) } globalThis.Error = own',
  ],
  [
    'captureStackTrace',
    'const o = {}; Error.captureStackTrace(o); check(o.stack); check(Error.captureStackTrace)',
  ],
  [
    'stackTraceLimit',
    'Error.stackTraceLimit = 100; try { Object.defineProperty(Error, "stackTraceLimit", { value: 9 }) } catch (e) { check(e) } check(new Error("x").stack)',
  ],
  ['stack of an error with no stack left', 'deep(() => new Error("x").stack)'],
  ['console with no stack left', 'deep(() => console.log("x"))'],
  ['timer with no stack left', 'deep(() => setTimeout(check, 1e6))'],
  ['function of the script with no stack left', 'deep(() => back(1))'],
  ['address with no stack left', 'new URL("http://a.b"); deep(() => new URL("http://a.b"))'],
  [
    'promise species',
    'class P extends Promise { static get [Symbol.species]() { return function (run) { run(check, check) } } } check(P.resolve(1).then(() => {})); try { await P.resolve(1) } catch (e) { check(e) }',
  ],
  [
    'replaced then',
    'const { then } = Promise.prototype; Promise.prototype.then = function (...a) { for (const x of a) check(x); return Reflect.apply(then, this, a) }; await later(1); await Promise.resolve(); Promise.prototype.then = then',
  ],
  ['a thenable result', 'return { then(...a) { for (const x of a) check(x); a[0](found) } }'],
  [
    'replaced JSON',
    'const { parse, stringify } = JSON; JSON.parse = (...a) => { for (const x of a) check(x); return parse(...a) }; JSON.stringify = (...a) => { for (const x of a) check(x); return stringify(...a) }; check(back(1)); JSON.parse = parse; JSON.stringify = stringify',
  ],
  [
    'setters on prototypes',
    'for (const p of [Object.prototype, Array.prototype]) for (const k of ["0", "length2", "value", "resolve", "run", "toJSON"]) Object.defineProperty(p, k, { __proto__: null, configurable: true, set(v) { check(v); check(this) }, get() { check(this); return undefined } }); try { back([1]); console.log([1], {}) } catch (e) { check(e) } for (const p of [Object.prototype, Array.prototype]) for (const k of ["0", "length2", "value", "resolve", "run", "toJSON"]) delete p[k]',
  ],
  [
    'replaced array iteration',
    'const it = Array.prototype[Symbol.iterator]; Array.prototype[Symbol.iterator] = function () { check(this); return Reflect.apply(it, this, []) }; back([1]); console.log(1); Array.prototype[Symbol.iterator] = it',
  ],
  [
    'replaced Map methods',
    'const { get } = Map.prototype; Map.prototype.get = function (k) { check(this); check(k); return Reflect.apply(get, this, [k]) }; setTimeout(() => {}, 1); await later(1); Map.prototype.get = get',
  ],
  [
    'replaced Reflect.apply',
    'const { apply } = Reflect; Reflect.apply = (...a) => { for (const x of a) check(x); return apply(...a) }; back(1); console.log(1); Reflect.apply = apply',
  ],
  [
    'symbols the host gives a meaning',
    'const s = Symbol.for("nodejs.util.inspect.custom"); Promise.reject({ [s](...a) { for (const x of a) check(x); return "" } }); check(Symbol.keyFor(s))',
  ],
  [
    'names on the global object',
    'for (const k of Reflect.ownKeys(globalThis)) check(globalThis[k], String(k))',
  ],
  ['the entry', 'check(__enter); check(__enter()); try { new __enter() } catch (e) { check(e) }'],
  [
    'getters of the lazy globals',
    'for (const k of ["URL", "TextEncoder", "structuredClone"]) { const d = Object.getOwnPropertyDescriptor(globalThis, k); check(d.get); check(d.set); check(d.value) }',
  ],
  [
    'addresses',
    'const u = new URL("http://a.b/?q=1"); check(u); check(u.searchParams); check(u.href); try { new URL("no") } catch (e) { check(e) } try { new URL({ toString() { throw 1 } }) } catch (e) { check(e) }',
  ],
  [
    'encodings',
    'check(new TextEncoder().encode("x")); check(new TextEncoder().encode("x").buffer); try { new TextDecoder("nope") } catch (e) { check(e) }',
  ],
  [
    'clones',
    'const c = structuredClone({ d: new Date(), m: new Map(), e: new Error("x") }); check(c); check(c.d); check(c.m); check(c.e); try { structuredClone(() => 1) } catch (e) { check(e) }',
  ],
  [
    'WebAssembly',
    'check(typeof WebAssembly === "undefined" ? null : WebAssembly.compileStreaming(1))',
  ],
  [
    'iterators and generators',
    'check([][Symbol.iterator]()); check((function* () {})()); check(Object.getPrototypeOf(async function* () {}))',
  ],
  [
    'a proxy around everything',
    'const p = new Proxy(function () {}, { get: (t, k) => { check(t); return p }, apply: (t, self, a) => { check(self); for (const x of a) check(x); return 1 }, getPrototypeOf: () => null }); try { back(p) } catch (e) { check(e) } console.log(p)',
  ],
  [
    'Intl and its errors',
    'try { new Intl.NumberFormat("xx-invalid-locale-zz") } catch (e) { check(e) } check(new Intl.NumberFormat())',
  ],
  [
    'regular expressions',
    'check(RegExp); check(/a/.exec("a")); check("a".matchAll(/a/g)); check(RegExp["$_"])',
  ],
  [
    'microtasks',
    'await new Promise((r) => queueMicrotask(function (...a) { check(this); try { check(arguments.callee.caller) } catch (e) { check(e) } for (const x of a) check(x); r() }))',
  ],
  [
    'a module',
    'const load = Function("name", "return imp" + "ort(name)"); for (const name of ["fs", "node:fs", "block.js", "inside.js"]) try { check(await load(name)); found += name + " was loaded; " } catch (e) { check(e) }',
  ],
];

const helpers: readonly CodeHelper[] = [
  {
    name: 'back',
    parameters: ['x'],
    source: undefined,
    call: (values) => makeValue({ list: [...values] }),
  },
  {
    name: 'later',
    parameters: ['x'],
    source: undefined,
    call: async (values) => makeValue([...values]),
  },
  { name: 'refuse', parameters: [], source: undefined, call: () => raise('not_found', 'no') },
  {
    name: 'rejects',
    parameters: [],
    source: undefined,
    call: async () => raise('not_found', 'no'),
  },
];
const given: Readonly<Record<string, JsArgument>> = {
  data: { kind: 'data', data: { list: [1, { a: 2 }] } },
  text: { kind: 'data', data: 'text' },
  input: { kind: 'textual', data: { a: [1] }, text: '{"a":[1]}', isStage: true },
  kept: { kind: 'kept', text: 'x', data: [1], type: 'array', mx: { labels: [] } },
};

const callOf = (source: string, parameters: JsCall['parameters'] = []): JsCall => ({
  source,
  parameters,
  mx: () => ({}),
  helpers,
  timeoutMs: 20_000,
  descriptor: EMPTY,
});

describe('nothing of the host is reachable from a js block', () => {
  const engine = createJsEngine();
  afterAll(() => engine.close());

  test.each(TRICKS)('%s', async (_name, trick) => {
    // All tricks share one realm, because a replacement by one must not help a later one.
    const source = `${DETECTOR}try {\n${trick}\n} catch (e) { check(e, 'escaped error') }\nreturn found;`;
    const parameters = Object.entries(given).map(([name, value]) => ({ name, value }));
    const outcome = await engine.run(callOf(source, parameters));
    expect(outcome).toMatchObject({ ok: true, output: { value: '' } });
  });

  test.each([
    ['["__proto__","polluted"]', 'Infinity'],
    ['["list","constructor","prototype","polluted"]', 'NaN'],
    ['["list","__proto__","polluted"]', '-Infinity'],
    ['["list","polluted","deeper"]', 'NaN'],
    ['"polluted"', 'NaN'],
    ['{', 'NaN'],
  ])('a forged place of a number, %s, is written nowhere', (path, number) => {
    const odd = [[path, number]];
    const forgeries = { Object: { copy: { list: [] }, odd }, Array: odd };
    for (const [name, forged] of Object.entries(forgeries)) {
      const source =
        `${name}.prototype.toJSON = function () { delete ${name}.prototype.toJSON; ` +
        `return ${JSON.stringify(forged)} }; return NaN`;
      const outcome = engine.run(callOf(source));
      const undo = engine.run(callOf(`delete ${name}.prototype.toJSON`));
      expect(Reflect.get({}, 'polluted')).toBeUndefined();
      expect(Reflect.get([], 'polluted')).toBeUndefined();
      expect([outcome, undo]).toMatchObject([{ ok: true, output: { value: NaN } }, { ok: true }]);
    }
  });

  test('no spelling of a dynamic import is compiled', () => {
    const spellings = [
      'import("fs")',
      'import /**/ ("fs")',
      'import // x\n("fs")',
      'import.source("fs")',
    ];
    for (const source of [...spellings, '`${import\n("fs")}`', 'x = /[`/]/; import("fs") /`/']) {
      expect(engine.run(callOf(source))).toMatchObject({
        ok: false,
        error: { code: 'invalid_input' },
      });
    }
  });

  test('the detector finds an object, a function and an error of the host', () => {
    const context = createContext(Object.create(null) as object);
    const judge = runInContext(
      `(function (x) { ${DETECTOR} check(x); return found !== '' })`,
      context,
    ) as (x: unknown) => boolean;
    expect([{}, () => 1, new RangeError('x'), [1]].map(judge)).toEqual([true, true, true, true]);
    expect([1, 'x', null, undefined].map(judge)).toEqual([false, false, false, false]);
  });
});
