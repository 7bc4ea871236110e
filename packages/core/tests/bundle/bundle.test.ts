// What ships with the package is data; these are its promises. A new item in `bundle/` is checked
// here without anybody having to list it.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  fail,
  formatDiagnostic,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  systemClock,
} from '../../src/base/index.ts';
import { compileExpression } from '../../src/expr/index.ts';
import { parsePolicy } from '../../src/flow/index.ts';
import { composePolicies } from '../../src/flow/policies/compose.ts';
import type { Root } from '../../src/items/files/root.ts';
import { createLibrary, type Library, parseDirective } from '../../src/items/index.ts';
import { fileFunctions } from '../../src/kernel/file-tools/file-tools.ts';
import { shippedSinks } from '../../src/kernel/primitives/shipped.ts';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));
const BUNDLE = join(ROOT, 'bundle');
const DEMO = join(BUNDLE, 'demo');
const PRIMITIVES = 'subprocess http_client function thread reader mcp memory'.split(' ');
const TIERS = ['fast', 'balanced', 'general', 'reasoning', 'expert', 'orchestrator'];
const TOPICS = 'overview directives permissions limits hooks spawning mcps stuck scripts'.split(
  ' ',
);

const open = (roots: Root[], projectRoot: string): Library =>
  createLibrary({
    roots,
    projectRoot,
    primitives: () => PRIMITIVES,
    trustStore: { judge: () => fail('not_found', 'no keys here') },
    clock: systemClock,
  });

const shipped: Root = { source: 'bundle', dir: BUNDLE };
const library = open([shipped], ROOT);
const demo = open([{ source: 'project', dir: join(DEMO, '.ai') }, shipped], DEMO);
beforeAll(async () => {
  await library.refresh();
  await demo.refresh();
});
afterAll(() => {
  library.close();
  demo.close();
});

const findings = (checked: Library): string[] => checked.check().map(formatDiagnostic);
const rows = (value: Json | undefined): [string, JsonObject][] =>
  isObject(value)
    ? Object.entries(value).filter((row): row is [string, JsonObject] => isObject(row[1]))
    : [];

const word = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

test('every item of the bundle checks clean', () => {
  expect(library.all().length).toBeGreaterThan(20);
  expect(findings(library)).toEqual([]);
});

test('every item of the demo project checks clean', () => {
  expect(findings(demo)).toEqual([]);
});

test('every tool has what a caller needs to know', () => {
  for (const { id, tool } of [...library.all('tool'), ...demo.all('tool')]) {
    expect(tool, id).toBeDefined();
    expect(tool?.description, id).not.toBe('');
    expect(tool?.version, id).not.toBe('0.0.0');
    for (const { name, description } of tool?.parameters ?? []) {
      expect(description, `${id}: ${name}`).not.toBe('');
    }
  }
});

test('every chain ends in a mounted primitive', () => {
  for (const checked of [library, demo]) {
    for (const { id } of checked.all('tool')) {
      const chain = checked.chain(id);
      expect(chain.ok ? PRIMITIVES : chain.error, id).toContain(chain.ok && chain.output.primitive);
    }
  }
});

test('every function that a tool names exists', () => {
  const known = [
    ...Object.keys(fileFunctions),
    ...Object.keys(shippedSinks({ clock: systemClock, isHostAllowed: () => false })),
  ];
  for (const { id, tool } of library.all('tool')) {
    if (tool?.executor_id === 'function')
      expect(known, id).toContain(getOwn(tool.config, 'function'));
  }
});

test('every built-in function is reached by a tool', () => {
  const named = library.all('tool').map(({ tool }) => getOwn(tool?.config, 'function'));
  for (const name of Object.keys(fileFunctions)) expect(named).toContain(name);
});

test('every hook directive declares its action, every condition compiles', () => {
  const directives = [...library.all('directive'), ...demo.all('directive')];
  for (const { id, category, directive } of directives) {
    if (category === 'hooks') {
      const action = directive?.outputs.find(({ name }) => name === 'action');
      expect(action?.required, id).toBe(true);
    }
    for (const { when } of directive?.hooks ?? []) {
      expect(compileExpression(when).ok, `${id}: ${when}`).toBe(true);
    }
  }
});

test('every model that the tiers and tools name has a price and a window', () => {
  const pricing = library.config('pricing').value;
  const priced = new Map(
    rows(pricing.models).flatMap(([id, row]) => [
      [id, row] as const,
      ...((row.aliases as string[] | undefined) ?? []).map((alias) => [alias, row] as const),
    ]),
  );
  const models = library.config('models').value;
  const named = [
    ...rows(models.models).map(([id]) => id),
    ...rows(models.tiers).flatMap(([, tier]) => [word(tier.model), word(tier.fallback)]),
    ...library
      .all('tool')
      .flatMap(({ tool }) => tool?.parameters.filter(({ name }) => name === 'model') ?? [])
      .map((parameter) => word(parameter.default)),
  ];
  expect(named.length).toBeGreaterThan(10);
  for (const id of named) {
    expect(priced.get(id)?.input_per_million, id).toBeDefined();
    expect(priced.get(id)?.output_per_million, id).toBeDefined();
    expect(priced.get(id)?.context, id).toBeGreaterThan(0);
  }
});

test('no model id stands for two prices', () => {
  const ids = rows(library.config('pricing').value.models).flatMap(([id, row]) => [
    id,
    ...((row.aliases as string[] | undefined) ?? []),
  ]);
  expect(ids.length).toBe(new Set(ids).size);
});

test('every tier has a model, and every provider its tools', () => {
  const { tiers, models, providers } = library.config('models').value;
  expect(rows(tiers).map(([name]) => name)).toEqual(TIERS);
  for (const [, tier] of rows(tiers)) {
    expect(getOwn(providers, word(tier.provider))).toBeDefined();
    for (const id of [tier.model, tier.fallback]) expect(getOwn(models, word(id))).toBeDefined();
  }
  for (const [, provider] of rows(providers)) {
    for (const id of [provider.tool, provider.thread_tool]) {
      const found = library.chain(word(id));
      expect(found.ok && found.output.primitive).toBe('http_client');
    }
  }
});

test('every limit has a finite default', () => {
  const defaults = library.config('limits').value.defaults;
  expect(defaults).toMatchObject({
    turns: 25,
    tokens: 200_000,
    spawns: 10,
    duration: 1800,
    spend: '1.00',
    spend_currency: 'USD',
    depth: 3,
    tool_calls: 200,
  });
});

test('no data file has a mistake', () => {
  for (const name of ['pricing', 'models', 'capabilities', 'limits'] as const) {
    expect(library.config(name).diagnostics.map(formatDiagnostic)).toEqual([]);
  }
});

test('every help topic and the universal prompt are there', () => {
  for (const topic of TOPICS) {
    const found = library.find('knowledge', `help/${topic}`);
    expect(found.ok && found.output.category, topic).toBe('help');
  }
  const prompt = library.find('knowledge', 'system/universal_prompt');
  expect(prompt.ok && prompt.output.body.length).toBeLessThan(3000);
});

test('the directives and conditions that texts show are right', () => {
  let shown = 0;
  for (const { id, body } of library.all('knowledge')) {
    for (const [, block = ''] of body.matchAll(/^```xml\n([\s\S]*?)^```$/gm)) {
      for (const [, when = ''] of block.matchAll(/<when>([\s\S]*?)<\/when>/g)) {
        expect(compileExpression(when).ok, `${id}: ${when}`).toBe(true);
      }
      const name = /<directive name="(\w+)"/.exec(block)?.[1];
      if (name === undefined) continue;
      shown++;
      const { diagnostics } = parseDirective(block, `${name}.md`);
      expect(diagnostics.map(formatDiagnostic), id).toEqual([]);
    }
  }
  expect(shown).toBeGreaterThan(1);
});

test('texts name only tools and topics that exist or come with threads and servers', () => {
  const known = new Set(library.all().map(({ id }) => id));
  for (const { id, body } of library.all('knowledge')) {
    for (const [, name = ''] of body.matchAll(
      /\b((?:fs|http|git|shell|llm|sinks|runtime)\/[a-z_]+)\b/g,
    )) {
      expect(known, `${id} names ${name}`).toContain(name);
    }
    for (const [, topic = ''] of body.matchAll(/topic `(\w+)`/g))
      expect(TOPICS, id).toContain(topic);
  }
});

test('the default policy lets a person work and another program’s model look', () => {
  const file = join(BUNDLE, 'policy.yaml');
  const { policy, diagnostics } = parsePolicy(readFileSync(file, 'utf8'), file, 'bundle');
  expect(diagnostics).toEqual([]);
  const composed = composePolicies(policy ? [policy] : []);
  expect(composed.effects('cli')).toEqual(['read', 'idempotent', 'write']);
  expect(composed.effects('mcp')).toEqual(['read']);
  expect(composed.directives('mcp')).toBe('signed');
  expect(composed.allowsUnsigned).toBe(false);
  expect(composed.sandbox).toBe('required');
});

test('the demo’s policy has no mistake', () => {
  const file = join(DEMO, '.ai/policy.yaml');
  expect(parsePolicy(readFileSync(file, 'utf8'), file, 'project').diagnostics).toEqual([]);
});

test('the digest list is current', () => {
  const list = () => execFileSync(process.execPath, [join(ROOT, 'scripts/digests.js'), '--check']);
  expect(list).not.toThrow();
});
