import { expect, test } from 'vitest';
import { canSpawn, type Directive } from './directive.ts';
import { resolveExtends } from './extends.ts';
import { parseDirective } from './parse.ts';

const read = (name: string, metadata: string, rest = ''): Directive => {
  const text = `<directive name="${name}" version="1.0.0"><metadata>${metadata}</metadata>${rest}</directive>`;
  return parseDirective(text, `${name}.md`).directive as Directive;
};
const extending = (name: string) => `<relationships><extends>${name}</extends></relationships>`;

const base = read(
  'base',
  '<description>base</description><model tier="fast"/><limits><turns>99</turns></limits><permissions><execute resource="shell"/></permissions><expose mcp="prompt"/><hooks><hook><when>labels</when><directive>b</directive></hook></hooks>',
  '<inputs><a>from base</a><b/></inputs><process><step name="s"/></process><context><k>base</k><l>base</l></context>',
);

test('the parts of the extended directive lie below the own ones', () => {
  const own = read(
    'own',
    `${extending('base')}<hooks><hook><when>labels</when><directive>a</directive></hook></hooks>`,
    '<inputs><a>own</a></inputs><context><k>own</k></context>',
  );
  const merged = resolveExtends(own, () => base);
  expect(merged.hooks.map(({ directive }) => directive)).toEqual(['a', 'b']);
  expect(merged.inputs.map(({ description }) => description)).toEqual(['own', '']);
  expect(merged.context).toEqual({ k: 'own', l: 'base' });
  expect(merged).toMatchObject({ name: 'own', description: 'base', model: { tier: 'fast' } });
  expect(merged.process.steps).toHaveLength(1);
});

test('permissions, limits and exposure are never inherited', () => {
  const merged = resolveExtends(read('own', extending('base')), () => base);
  expect(merged.permissions).toBeUndefined();
  expect(merged.limits).toBeUndefined();
  expect(merged.expose).toBeUndefined();
  expect(canSpawn(merged)).toEqual({ can_spawn_thread: false, missing: ['limits', 'permissions'] });
});

test('a circle and a missing directive end the search', () => {
  const [a, b] = [
    read('a', extending('b, nothing')),
    read('b', extending('a'), '<inputs><x/></inputs>'),
  ];
  const merged = resolveExtends(a, (name) => ({ a, b })[name]);
  expect(merged.inputs.map(({ name }) => name)).toEqual(['x']);
});

test('a thread needs limits, permissions and a model or a script', () => {
  expect(canSpawn(base)).toEqual({ can_spawn_thread: true, missing: [] });
  const script = '<process><script>/show 1</script></process>';
  expect(canSpawn(read('s', '<limits/><permissions/>', script)).can_spawn_thread).toBe(true);
  expect(canSpawn(read('s', '')).missing).toEqual(['limits', 'permissions', 'model']);
});
