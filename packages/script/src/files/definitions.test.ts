import { describe, makeValue } from '@kernmantle/core/flow';
import { expect, test } from 'vitest';
import { textOf } from '../values/text.ts';
import { selectDefinitions } from './definitions.ts';

const secret = describe({ labels: ['secret'] });

const TS = `import { a } from './a.ts';

// function commented() {}
export function greet(name: string): { text: string } {
  return { text: \`hi } \${name}\` };
}

export const LIMIT = 3;
const twice = (n: number): number => n * 2;
let list = [
  1,
]

export interface Shape {
  size(): number;
}

type Id =
  | string
  | number;

enum Color { Red, Green }

export class UserService extends Base {
  #name = 'x';

  constructor(name: string) {
    super();
    if (name) this.#name = name;
  }

  async load(id: Id): Promise<void> {
    for (const x of []) save(x);
  }
}

class OrderService {}
`;

const PY = `LIMIT = 3

def greet(
    name,
):
    """def fake(): pass"""
    return name

class Service:
    def run(self):
        return 1

    async def stop(self):
        pass

def last(): return 1
`;

const file = (filename: string, text: string) =>
  makeValue(text, { text, descriptor: secret, origin: { filename } });
const pick = (...words: string[]) => selectDefinitions(file('a.ts', TS), words);
const names = (...words: string[]) =>
  (pick(...words).data as { name: string }[]).map(({ name }) => name);

test('definitions are found by name, with code, kind and line', () => {
  expect(pick('greet').data).toEqual([
    {
      name: 'greet',
      type: 'function',
      line: 4,
      code: 'export function greet(name: string): { text: string } {\n  return { text: `hi } ${name}` };\n}',
    },
  ]);
  expect(textOf(pick('LIMIT', 'Id'))).toBe(
    'export const LIMIT = 3;\n\ntype Id =\n  | string\n  | number;',
  );
  expect(textOf(pick('list'))).toBe('let list = [\n  1,\n]');
  expect(pick('greet').meta.descriptor).toBe(secret);
});

test('wildcards and kinds, in file order', () => {
  expect(names('*Service')).toEqual(['UserService', 'OrderService']);
  expect(names('*fn')).toEqual(['greet', 'twice']);
  expect(names('*enum', '*interface', '*type')).toEqual(['Shape', 'Id', 'Color']);
  expect(names('*var')).toEqual(['LIMIT', 'list']);
});

test('methods are found by name, and only once', () => {
  expect(textOf(pick('load'))).toBe(
    'async load(id: Id): Promise<void> {\n  for (const x of []) save(x);\n}',
  );
  expect(names('load', 'UserService')).toEqual(['UserService']);
  expect(names('if', 'super', 'commented')).toEqual([]);
});

test('names are listed sorted, one per line', () => {
  expect(textOf(pick('class??'))).toBe('OrderService\nUserService');
  expect(pick('??').data).toContain('greet');
  expect(pick('fn??').data).toEqual(['greet', 'twice']);
  expect(() => pick('??', 'greet')).toThrow('cannot be mixed');
  expect(() => pick('verb??')).toThrow('`verb??`');
});

test('Python by indentation', () => {
  const python = (...words: string[]) => selectDefinitions(file('a.py', PY), words);
  expect(textOf(python('greet'))).toBe(
    'def greet(\n    name,\n):\n    """def fake(): pass"""\n    return name',
  );
  expect(textOf(python('run'))).toBe('def run(self):\n    return 1');
  expect(python('??').data).toEqual(['LIMIT', 'Service', 'greet', 'last']);
});

test('Go, Rust and Java', () => {
  const go = file(
    'a.go',
    'type T struct {\n  a int\n}\n\nfunc (t *T) Run() error {\n  return nil\n}\n',
  );
  expect(textOf(selectDefinitions(go, ['Run']))).toBe('func (t *T) Run() error {\n  return nil\n}');
  const rust = file(
    'a.rs',
    "pub struct S<'a> {\n  x: &'a str,\n}\n\nimpl<'a> S<'a> {\n  pub fn go(&self) -> u8 {\n    1\n  }\n}\n",
  );
  expect(textOf(selectDefinitions(rust, ['go']))).toBe('pub fn go(&self) -> u8 {\n  1\n}');
  expect(selectDefinitions(rust, ['??']).data).toEqual(['S']);
  const java = file(
    'A.java',
    'public class A {\n  private int n = f();\n  public List<String> all(int n) {\n    return null;\n  }\n}\n',
  );
  expect(textOf(selectDefinitions(java, ['all']))).toBe(
    'public List<String> all(int n) {\n  return null;\n}',
  );
});

test('other files and broken code do not crash it', () => {
  expect(() => selectDefinitions(file('a.txt', 'x'), ['x'])).toThrow('cannot be read from `a.txt`');
  expect(selectDefinitions(file('a.ts', 'function f( {'), ['f']).data).toHaveLength(1);
  expect(selectDefinitions(file('a.ts', '}}}} const x'), ['x']).data).toEqual([]);
});
