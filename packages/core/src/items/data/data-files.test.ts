import { symlinkSync } from 'node:fs';
import { createFixture, type Fixture } from '@kernmantle/test-support/library';
import { afterEach, expect, test } from 'vitest';

let fixture: Fixture;
afterEach(() => fixture.end());

async function open(files: Record<string, string>) {
  fixture = createFixture(files);
  await fixture.library.refresh();
  return fixture.library;
}
const price = (input: number) => `{ input_per_million: ${input}, output_per_million: 5.00 }`;
const codes = (found: { diagnostics: readonly { code: string }[] }) =>
  found.diagnostics.map(({ code }) => code);

test('the project stands over the user, the user over the bundle, key by key', async () => {
  const library = await open({
    'bundle/config/pricing.yaml': `currency: USD\nmodels:\n  a: ${price(1)}\n  b: ${price(2)}\n`,
    'user/.ai/config/pricing.yaml': `models:\n  b: ${price(3)}\n  c: ${price(4)}\n`,
    'project/.ai/config/pricing.yaml': 'models:\n  c: { input_per_million: "9.25" }\n',
    'installed/config/pricing.yaml': 'models:\n  a: { free: true }\n',
  });
  const { value, layers, diagnostics } = library.config('pricing');
  expect(diagnostics).toEqual([]);
  expect(value).toEqual({
    currency: 'USD',
    models: {
      a: { input_per_million: 1, output_per_million: 5 },
      b: { input_per_million: 3, output_per_million: 5 },
      c: { input_per_million: '9.25', output_per_million: 5 },
    },
  });
  expect(layers.map(({ source }) => source)).toEqual(['bundle', 'user', 'project']);
});

test('a project says what money is worth only where nobody else does', async () => {
  const library = await open({
    'bundle/config/pricing.yaml': 'currency: USD\nrates: { EUR: "1.10" }\n',
    'project/.ai/config/pricing.yaml': 'currency: IDR\nrates: { EUR: "99", CHF: "1.20" }\n',
  });
  expect(library.config('pricing').value).toEqual({
    currency: 'USD',
    rates: { EUR: '1.10', CHF: '1.20' },
  });
});

test("the seeds' places are read, below the file in config, and are no tools", async () => {
  const library = await open({
    'project/.ai/tools/llm/pricing.yaml': `models:\n  gpt-4: ${price(30)}\n  x: ${price(1)}\ndefault: ${price(5)}\n`,
    'project/.ai/config/pricing.yaml': `models:\n  x: ${price(2)}\n`,
    'project/.ai/tools/capabilities/fs.yaml':
      'tool_type: capability\nversion: "1.0.0"\ncategory: capabilities\ncapabilities: [fs.read, shop.buy]\ndescription: Buying\n',
    'bundle/config/capabilities.yaml':
      'capabilities:\n  fs.read: { meaning: read, tier: read, scope: [path] }\n  registry.write: { meaning: w, tier: system }\n',
  });
  expect(library.all()).toEqual([]);
  expect(library.config('pricing').value).toMatchObject({
    models: { 'gpt-4': { input_per_million: 30 }, x: { input_per_million: 2 } },
  });
  const { catalog, diagnostics } = library.capabilities();
  expect(diagnostics).toEqual([]);
  expect(catalog.get('shop.buy')).toMatchObject({ meaning: 'Buying', tier: 'write' });
  expect(catalog.get('fs.read')).toMatchObject({ scope: ['path'] });
});

test('mistakes are reported, what is right is kept, an unpriced row is none', async () => {
  const library = await open({
    'project/.ai/config/pricing.yaml': `currency: dollars\nmodels:\n  a: { input_per_million: -1, output_per_million: 2 }\n  b: ${price(1)}\n  c: []\nmodel: x\n`,
    'project/.ai/config/limits.yaml': 'defaults: { turns: 5, tokens: many }\n',
    'project/.ai/config/models.yaml': 'tiers: [\n',
  });
  const pricing = library.config('pricing');
  expect(pricing.value).toMatchObject({ models: { b: {} } });
  expect(Object.keys(pricing.value.models as object)).toEqual(['b']);
  expect(codes(pricing)).toEqual([
    'invalid_field',
    'invalid_field',
    'invalid_field',
    'unknown_field',
    'price_incomplete',
  ]);
  expect(library.config('limits').value).toEqual({ defaults: { turns: 5 } });
  expect(library.config('models')).toMatchObject({ value: {} });
  expect(codes(library.config('models'))).toContain('yaml_syntax');
});

test('a project cannot declare or change capabilities of the system', async () => {
  const library = await open({
    'bundle/config/capabilities.yaml':
      'capabilities:\n  fs.read: { meaning: read, tier: read }\n  registry.write: { meaning: w, tier: system }\n',
    'project/.ai/config/capabilities.yaml':
      'capabilities:\n  registry.write: { meaning: mine, tier: read }\n  evil.all: { meaning: e, tier: system }\n  shop.buy: { meaning: buy, tier: write }\n',
  });
  const { catalog, diagnostics } = library.capabilities();
  expect(catalog.isSystem('registry.write')).toBe(true);
  expect(catalog.get('evil.all')).toBeUndefined();
  expect(catalog.get('shop.buy')).toBeDefined();
  expect(diagnostics.map(({ file, code }) => [file, code])).toEqual([
    [fixture.path('project/.ai/config/capabilities.yaml'), 'capability_invalid'],
    [fixture.path('project/.ai/config/capabilities.yaml'), 'capability_invalid'],
  ]);
});

test('a link out of the project is not read, a changed file is', async () => {
  const library = await open({
    'secret.yaml': `models:\n  s: ${price(1)}\n`,
    'project/.ai/config/limits.yaml': 'defaults: { turns: 1 }\n',
  });
  symlinkSync(fixture.path('secret.yaml'), fixture.path('project/.ai/config/pricing.yaml'));
  expect(library.config('pricing').value).toEqual({});
  expect(codes(library.config('pricing'))).toEqual(['symlink_outside']);
  expect(library.config('limits').value).toEqual({ defaults: { turns: 1 } });
  fixture.put('project/.ai/config/limits.yaml', 'defaults: { turns: 2 }\n');
  await library.refresh();
  expect(library.config('limits').value).toEqual({ defaults: { turns: 2 } });
});
