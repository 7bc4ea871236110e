// Text of models and tools must not become markup, a link or an image. The browser forbids it (the
// page's policy), `ForeignText` does not do it, and this reads the syntax of every file of the page: no
// way to make markup from text is even mentioned, and addresses are written down, not taken from data.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAst, transformWithEsbuild } from 'vite';
import { expect, test } from 'vitest';

const PAGE = 'packages/web/src/page';
/** `Link` takes a path of our own only; it is the one place that makes an address. */
const MAKES_ADDRESSES = 'router.tsx';

const MARKUP = new Set([
  'innerHTML',
  'outerHTML',
  'insertAdjacentHTML',
  'dangerouslySetInnerHTML',
  'setHTMLUnsafe',
  'createContextualFragment',
  'DOMParser',
  'srcdoc',
  'eval',
  'Function',
]);
const OF_DOCUMENT = new Set(['write', 'writeln']);
const WINDOWS = new Set(['window', 'self', 'globalThis', 'top', 'parent']);
const ADDRESSES = new Set([
  'href',
  'src',
  'srcset',
  'action',
  'formAction',
  'xlinkHref',
  'poster',
  'ping',
]);

interface AnyNode {
  readonly type: string;
  readonly [field: string]: unknown;
}
const isNode = (value: unknown): value is AnyNode =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';

function* nodesIn(value: unknown): Generator<AnyNode> {
  if (Array.isArray(value)) {
    for (const one of value) yield* nodesIn(one);
    return;
  }
  if (!isNode(value)) return;
  yield value;
  for (const [field, inside] of Object.entries(value)) {
    if (field !== 'parent') yield* nodesIn(inside);
  }
}

/** What a key, a property or an attribute is called, however it is written. */
function nameOf(node: unknown): string | undefined {
  if (!isNode(node)) return undefined;
  if (node.type === 'Identifier' && typeof node['name'] === 'string') return node['name'];
  return node.type === 'Literal' && typeof node['value'] === 'string' ? node['value'] : undefined;
}

const isOwnAddress = (node: unknown): boolean =>
  isNode(node) &&
  node.type === 'Literal' &&
  typeof node['value'] === 'string' &&
  /^(?:#|\/(?!\/))/.test(node['value']);

function wrongIn(node: AnyNode, file: string): string | undefined {
  if (
    node.type === 'MemberExpression' ||
    node.type === 'CallExpression' ||
    node.type === 'NewExpression'
  ) {
    const name = nameOf(node['property'] ?? node['callee']);
    if (name !== undefined && MARKUP.has(name)) return name;
    const object = nameOf(node['object']) ?? '';
    if (object === 'document' && name !== undefined && OF_DOCUMENT.has(name)) return name;
    if (WINDOWS.has(object) && name === 'open') return name;
  }
  if (node.type === 'CallExpression' && isNode(node['callee'])) {
    const [name, value] = Array.isArray(node['arguments']) ? node['arguments'] : [];
    if (nameOf(node['callee']['property']) === 'setAttribute') {
      const attribute = isNode(name) && name.type === 'Literal' ? nameOf(name) : undefined;
      if (attribute === undefined || MARKUP.has(attribute)) return 'setAttribute';
      if (ADDRESSES.has(attribute) && !isOwnAddress(value)) return `setAttribute ${attribute}`;
    }
  }
  if (node.type === 'AssignmentExpression' && isNode(node['left'])) {
    const { left } = node as { left?: unknown };
    const name = nameOf(isNode(left) ? (left['property'] ?? left) : undefined);
    if (name === 'location' || (name !== undefined && ADDRESSES.has(name))) return `${name} =`;
  }
  if (node.type === 'Property') {
    const name = nameOf(node['key']);
    if (name !== undefined && MARKUP.has(name)) return name;
    const isPattern = isNode(node['value']) && node['value'].type === 'AssignmentPattern';
    if (name === undefined || !ADDRESSES.has(name) || isPattern || file === MAKES_ADDRESSES)
      return undefined;
    if (!isOwnAddress(node['value'])) return name;
  }
  return undefined;
}

/** JSX is taken apart first, so that an attribute is a property of an object like any other. */
async function wrongInText(text: string, file: string): Promise<string[]> {
  const { code } = await transformWithEsbuild(text, file, {
    jsx: 'automatic',
    jsxImportSource: 'preact',
    loader: file.endsWith('x') ? 'tsx' : 'ts',
  });
  return [...nodesIn(parseAst(code))].flatMap((node) => wrongIn(node, file) ?? []);
}

const files = readdirSync(PAGE, { recursive: true, encoding: 'utf8' }).filter((name) =>
  /\.tsx?$/.test(name),
);

test('no file of the page makes markup from text or an address from data', async () => {
  expect(files).toContain('parts/untrusted-text.tsx');
  const found = await Promise.all(
    files.map(async (name) => {
      const wrong = await wrongInText(readFileSync(join(PAGE, name), 'utf8'), name);
      return wrong.map((what) => `${name}: ${what}`);
    }),
  );
  expect(found.flat()).toEqual([]);
});

test.each([
  ['element.innerHTML = text;', 'innerHTML'],
  ["element['innerHTML'] = text;", 'innerHTML'],
  ["element.insertAdjacentHTML('beforeend', text);", 'insertAdjacentHTML'],
  ['document.write(text);', 'write'],
  ['export const a = <p dangerouslySetInnerHTML={{ __html: text }} />;', 'dangerouslySetInnerHTML'],
  ['export const a = <a href={text}>x</a>;', 'href'],
  ['export const a = <a href={`/t/${text}`}>x</a>;', 'href'],
  ['export const a = <a href="https://example.com">x</a>;', 'href'],
  ['export const a = <a {...{ href: text }}>x</a>;', 'href'],
  ['export const a = <img src={text} />;', 'src'],
  ['anchor.href = text;', 'href ='],
  ['location.href = text;', 'href ='],
  ['location = text;', 'location ='],
  ['window.open(text);', 'open'],
  ["element.setAttribute('href', text);", 'setAttribute href'],
  ['element.setAttribute(name, text);', 'setAttribute'],
  ["new DOMParser().parseFromString(text, 'text/html');", 'DOMParser'],
])('%s is found', async (text, what) => {
  expect(await wrongInText(text, 'a.tsx')).toContain(what);
});

test('addresses of our own, written down, are fine', async () => {
  const text = 'export const a = <a href="#content" title={text}>{text}</a>;';
  expect(await wrongInText(text, 'a.tsx')).toEqual([]);
});
