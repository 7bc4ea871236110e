import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { ok } from '../../base/index.ts';
import { type Library, parseTool } from '../../items/index.ts';
import { type PlannedTool, resolvePlan } from './plan.ts';

function toolItem(id: string, yaml: string): PlannedTool {
  const { tool } = parseTool(`tool_id: ${id}\nversion: 1.0.0\n${yaml}`, `${id}.yaml`);
  const signature = { state: 'signed' };
  return {
    kind: 'tool',
    id,
    file: `${id}.yaml`,
    tool,
    signature,
    diagnostics: [],
  } as unknown as PlannedTool;
}

const TIERS: Readonly<Record<string, string>> = {
  'fs.read': 'read',
  'fs.write': 'write',
  'net.http': 'write',
  'process.spawn': 'elevated',
};
const CATALOG = { get: (name: string) => ({ tier: TIERS[name] }) };

function libraryOf(links: readonly PlannedTool[], primitive = 'function'): Library {
  const chain = ok({ links, primitive });
  const capabilities = () => ({ catalog: CATALOG });
  const configFaults = () => [];
  return { chain: () => chain, capabilities, configFaults } as unknown as Library;
}

function planOf(library: Library, item: PlannedTool, parameters = {}) {
  const plan = resolvePlan(library, item, parameters);
  if (!plan.ok) throw new Error(plan.error.detail.message);
  return plan.output;
}

const leaf = toolItem('leaf', 'executor_id: base\nconfig: {a: 1}');
const base = toolItem('base', 'executor_id: function\nconfig: {b: 2}\nrequires: [fs.read]');

test('the same links give the same plan', () => {
  const library = libraryOf([leaf, base]);
  expect(planOf(library, leaf)).toBe(planOf(library, leaf));
  expect(planOf(library, leaf).config).toEqual({ a: 1, b: 2 });
});

test('another link below the same leaf gives another plan, and the first is not found again', () => {
  const changed = toolItem('base', 'executor_id: function\nconfig: {b: 3}\nrequires: [fs.write]');
  const first = planOf(libraryOf([leaf, base]), leaf);
  const second = planOf(libraryOf([leaf, changed]), leaf);
  expect(second.config).toEqual({ a: 1, b: 3 });
  expect(second.requires).toEqual(['fs.write']);
  expect(planOf(libraryOf([leaf, base]), leaf)).toEqual(first);
});

test('another primitive below the same links gives another plan', () => {
  expect(planOf(libraryOf([leaf, base]), leaf).primitive).toBe('function');
  expect(planOf(libraryOf([leaf, base], 'subprocess'), leaf).primitive).toBe('subprocess');
});

test('every action has its own plan', () => {
  const many = toolItem(
    'many',
    `executor_id: function
actions:
  - {name: look, description: x, effect: read, requires: [fs.read]}
  - {name: change, description: x, effect: write, requires: [fs.write]}`,
  );
  const library = libraryOf([many]);
  const [look, change] = ['look', 'change'].map((action) => planOf(library, many, { action }));
  expect([look?.action, look?.requires]).toEqual(['look', ['fs.read']]);
  expect([change?.action, change?.requires]).toEqual(['change', ['fs.write']]);
  expect(planOf(library, many, { action: 'look' })).toBe(look);
});

test.each([
  ['requires: [fs.read]\neffect: read', 'read'],
  ['requires: [fs.read]\neffect: write', 'write'],
  ['requires: [net.http]\neffect: read', 'read'],
  ['requires: [net.http]\neffect: idempotent', 'write'],
  ['requires: [net.http, process.spawn]\neffect: read', 'elevated'],
  ['requires: [fs.read, fs.write]\neffect: read', 'write'],
  ['requires: [nobody.knows]\neffect: read', 'system'],
])('an operation has the highest tier of what it needs: %j is %s', (yaml, tier) => {
  const item = toolItem('one', `executor_id: function\n${yaml}`);
  expect(planOf(libraryOf([item]), item).op.tier).toBe(tier);
});

const below = toolItem(
  'below',
  'executor_id: function\nresult: { free_text: [body], kinds: { id: row, to: address } }\ndirectory: true',
);
const above = toolItem(
  'above',
  `executor_id: below
effect: read
parameters: [{ name: to, type: string, role: destination, kind: address }, { name: n, type: integer }]
result: { identifiers: [user], kinds: { id: mail } }`,
);

test('what the links say of results holds for the chain; the nearest knows the kind', () => {
  const plan = planOf(libraryOf([above, below]), above);
  expect(plan.resultFacts).toEqual({
    free_text: ['body'],
    identifiers: ['user'],
    kinds: { id: 'mail', to: 'address' },
  });
  expect([...plan.kinds]).toEqual([['to', 'address']]);
  expect(planOf(libraryOf([below]), below).resultFacts).toMatchObject({ directory: true });
  expect(planOf(libraryOf([leaf, base]), leaf).resultFacts).toBeUndefined();
});

test('what lets values be used as they are counts in signed files only', () => {
  const unsigned = { ...above, signature: { state: 'unsigned' } } as unknown as PlannedTool;
  const facts = planOf(libraryOf([unsigned, below]), unsigned).resultFacts;
  expect(facts).toEqual({
    free_text: ['body', 'user'],
    kinds: { id: 'mail', to: 'address' },
  });
  const book = { ...below, signature: { state: 'unsigned' } } as unknown as PlannedTool;
  expect(planOf(libraryOf([book]), book).resultFacts).not.toHaveProperty('directory');
});

test('only what reads and holds nothing of its author may follow a stranger’s address', () => {
  const follows = (yaml: string) => {
    const item = toolItem('one', `executor_id: function\n${yaml}`);
    return planOf(libraryOf([item]), item).op.follows ?? false;
  };
  expect(follows('effect: read')).toBe(true);
  expect(follows('effect: read\nenv: [TOKEN]')).toBe(false);
  expect(follows('effect: idempotent')).toBe(false);
  const config = (text: string) => follows(`effect: read\nconfig: ${text}`);
  expect(config('{ url: "{url}", headers: "{headers}" }')).toBe(true);
  expect(config('{ url: "{url}", headers: { Accept: text/html } }')).toBe(true);
  expect(config('{ url: "{url}", headers: { X-Api-Key: abc } }')).toBe(false);
  expect(config('{ url: "{url}", auth: { type: bearer, token: abc } }')).toBe(false);
  expect(follows('')).toBe(false);
});

const SOURCES = ['bundle', 'installed', 'user', 'project'] as const;
type Source = (typeof SOURCES)[number];
const from = (source: Source, yaml: string, state = 'bundle'): PlannedTool =>
  ({ ...toolItem('one', yaml), source, signature: { state } }) as PlannedTool;

test('only a shipped tool that stands on the reader itself reads, whatever a file says', () => {
  const file = fc.record({
    source: fc.constantFrom(...SOURCES),
    executor: fc.constantFrom('reader', 'function', 'read/extract'),
    word: fc.constantFrom('read', 'pick'),
    says: fc.constantFrom('', 'labels: [trusted]\n', 'config: { reads: quarantined }\n'),
  });
  const primitive = fc.constantFrom('reader', 'function', 'script');
  fc.assert(
    fc.property(fc.array(file, { minLength: 1, maxLength: 3 }), primitive, (files, end) => {
      const links = files.map(({ source, executor, word, says }) =>
        from(
          source,
          `executor_id: ${executor}\n${says || `config: { function: ${word} }\n`}effect: read`,
        ),
      );
      const [first] = links as [PlannedTool];
      const { reads } = planOf(libraryOf(links, end), first).op;
      const { source, tool } = first;
      const isReader = source === 'bundle' && tool?.executor_id === 'reader' && end === 'reader';
      const way = tool?.config.function === 'pick' ? 'picked' : 'quarantined';
      expect(reads).toBe(isReader ? way : undefined);
    }),
  );
});

test('one that is not what was shipped is refused before it reads', () => {
  const yaml = 'executor_id: reader\nconfig: { function: pick }\neffect: read';
  const changed = from('bundle', yaml, 'changed');
  const { broken } = planOf(libraryOf([changed], 'reader'), changed);
  expect(broken?.failure.error.code).toBe('signature_invalid');
});
