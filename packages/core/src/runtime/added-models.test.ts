import { expect, test } from 'vitest';
import { parseYaml } from '../base/index.ts';
import type { Library } from '../items/index.ts';
import { addedModels } from './added-models.ts';
import type { ServerModels } from './server-models.ts';

const EMPTY = { value: {}, layers: [], diagnostics: [] };
const library = { config: () => EMPTY } as Pick<Library, 'config'> as Library;
const SERVER: ServerModels = {
  kind: 'vllm',
  root: 'https://models.example',
  isLocal: false,
  models: [{ id: 'small-1', window: 100 }],
};
const add = (server: Partial<ServerModels>, price?: string) =>
  addedModels({ ...SERVER, ...server }, price === undefined ? {} : { price }, {
    library,
    home: '/home',
  });

test.each(['-1/2', '1/2/3', '1/', 'a/b', '1e3/1', ''])('price %j is refused', (price) => {
  expect(add({}, price)).toMatchObject({ ok: false, error: { code: 'usage' } });
});

test('a model at a public address is never free', () => {
  const refused = add({});
  expect(refused).toMatchObject({ ok: false, error: { code: 'usage' } });
  expect(JSON.stringify(refused)).toContain('`price` for a million tokens is required, as IN/OUT');
  const added = add({}, '0.15/0.60');
  const text = added.ok ? added.output.files[0]?.edit('') : undefined;
  expect(text?.ok && parseYaml(text.output).value).toEqual({
    models: { 'small-1': { input_per_million: 0.15, output_per_million: 0.6, context: 100 } },
  });
});

test.each(['models: text\n', 'models: [\n', '- 1\n'])(
  'a file that is %j is not changed',
  (text) => {
    const added = add({ isLocal: true });
    const edited = added.ok ? added.output.files.map(({ edit }) => edit(text)) : [];
    expect(edited).toHaveLength(2);
    for (const one of edited) {
      expect(one).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
    }
  },
);
