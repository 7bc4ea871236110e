import { bundleCatalog } from '@kernmantle/test-support/trust';
import { expect, test } from 'vitest';
import {
  type CapabilityInfo,
  createCapabilityCatalog,
  normalizeCapability,
  readCapabilities,
} from './capability-catalog.ts';

const info = (name: string, over: Partial<CapabilityInfo> = {}): CapabilityInfo => ({
  name,
  meaning: 'something',
  scope: [],
  tier: 'write',
  implies: [],
  ...over,
});

test('the shipped list holds every capability of the specification', () => {
  const catalog = bundleCatalog();
  const names =
    'fs.read fs.write fs.exec tool.execute process.spawn net.http net.websocket git.read git.write git.push db.query db.migrate mcp.connect mcp.github.call mcp.github.read spawn.thread kernel.load kernel.execute knowledge.read directive.modify tool.modify knowledge.modify project.use thread.read thread.control registry.read registry.write fs.absolute items.sign approve';
  expect(names.split(' ').filter((name) => !catalog.get(name))).toEqual([]);
  const system = catalog.names().filter((name) => catalog.isSystem(name));
  expect(system.sort()).toEqual(['approve', 'fs.absolute', 'items.sign', 'registry.write']);
});

test('only fs.write implies anything, and only fs.read', () => {
  const catalog = bundleCatalog();
  const implied = catalog.names().filter((name) => catalog.impliedBy(name).length > 0);
  expect(implied).toEqual(['fs.read']);
  expect(catalog.impliedBy('fs.read')).toEqual(['fs.write']);
});

test('a server pattern answers for every server and nothing else', () => {
  const catalog = bundleCatalog();
  expect(catalog.get('mcp.my-server_2.call')?.name).toBe('mcp.my-server_2.call');
  for (const name of [
    'mcp.<server>.call',
    'mcp.a.b.call',
    'mcp..call',
    'mcp.a.write',
    'mcp.a',
    'toString',
    '__proto__',
  ]) {
    expect(catalog.get(name)).toBeUndefined();
  }
});

test('aliases of other documents become our names', () => {
  expect(normalizeCapability('kiwi-mcp.execute')).toBe('kernel.execute');
  expect(normalizeCapability('kernmantle.load')).toBe('kernel.load');
  expect(normalizeCapability('mcp.supabase')).toBe('mcp.supabase.call');
  expect(normalizeCapability('mcp.supabase.read')).toBe('mcp.supabase.read');
  expect(normalizeCapability('mcp.connect')).toBe('mcp.connect');
  expect(normalizeCapability('fs.read')).toBe('fs.read');
});

test('a project adds names for its own tools', () => {
  const bundle = [info('fs.read', { scope: ['path'] })];
  const catalog = createCapabilityCatalog(bundle, [
    info('crm.read', { tier: 'read' }),
    info('crm.write', { implies: ['crm.read'] }),
  ]);
  expect(catalog.ok && catalog.output.impliedBy('crm.read')).toEqual(['crm.write']);
});

test.each([
  ['a system-only one', info('crm.admin', { tier: 'system' })],
  ['one that is built in', info('process.spawn')],
  ['one that a built-in pattern covers', info('mcp.github.call')],
  ['one that implies a built-in one', info('crm.read', { implies: ['process.spawn'] })],
  ['one with a placeholder', info('crm.<any>.call')],
  ['one with an unknown scope', info('crm.read', { scope: ['row'] })],
  ['one with a bad name', info('crm read')],
])('a project may not declare %s', (_, entry) => {
  const bundle = [info('process.spawn'), info('mcp.<server>.call')];
  const catalog = createCapabilityCatalog(bundle, [entry]);
  expect(!catalog.ok && catalog.error.code).toBe('config_invalid');
});

test('a capability may not imply a system-only one or one with another scope', () => {
  const system = info('approve', { tier: 'system' });
  expect(createCapabilityCatalog([system, info('a.b', { implies: ['approve'] })]).ok).toBe(false);
  const scoped = info('fs.read', { scope: ['path'] });
  expect(createCapabilityCatalog([scoped, info('a.b', { implies: ['fs.read'] })]).ok).toBe(false);
});

test('a capabilities file is read strictly and all problems are collected', () => {
  const { infos, problems } = readCapabilities({
    capabilities: {
      'crm.read': { meaning: 'read', tier: 'read' },
      'crm.a': { meaning: 'x', tier: 'huge' },
      'crm.b': { meaning: 'x', tier: 'read', scopes: [] },
      'crm.c': 'read',
      'crm.d': { meaning: 'x', tier: 'read', scope: [1] },
    },
    more: 1,
  });
  expect(infos.map(({ name }) => name)).toEqual(['crm.read']);
  expect(problems.map(({ name }) => name)).toEqual(['', 'crm.a', 'crm.b', 'crm.c', 'crm.d']);
  expect(problems[2]?.message).toContain('did you mean `scope`');
  expect(readCapabilities(null)).toEqual({ infos: [], problems: [] });
  expect(readCapabilities([]).problems).toHaveLength(1);
});
