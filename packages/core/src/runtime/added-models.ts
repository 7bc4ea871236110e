// Computes the change of the user's files for the models of a server. The command shows and writes it.
import { join } from 'node:path';
import {
  fail,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
  objectAt,
  ok,
  textAt,
  withYamlValues,
} from '../base/index.ts';
import type { Library } from '../items/index.ts';
import { parseMoney } from '../llm/index.ts';
import type { ServerModel, ServerModels } from './server-models.ts';

export interface AddedModels {
  readonly provider: string;
  readonly models: readonly Required<ServerModel>[];
  /** Sentences for the user: assumed windows, and models that were left out. */
  readonly warnings: readonly string[];
  /** The prices come first, so that no model is ever without its price. */
  readonly files: readonly UserFile[];
}

interface UserFile {
  readonly file: string;
  /** Returns the new text. Every other value of the file stays. */
  edit(before: string): Outcome<string>;
}

export interface AddOptions {
  readonly name?: string;
  /** The environment variable that has the key of the server. */
  readonly key?: string;
  /** Prices per million tokens, as `IN/OUT`. Absent: free, which only a local server can be. */
  readonly price?: string;
}

const UNKNOWN_WINDOW = 8192;
const NAME = /^[a-z][a-z0-9_-]{0,39}$/;

/** Returns the prices of a row. A local server is free unless the user names a price. */
function priceRow({ isLocal, root }: ServerModels, price: string | undefined): Outcome<JsonObject> {
  if (price === undefined && isLocal) return ok({ free: true });
  if (price === undefined) {
    const message = `\`${root}\` is at a public address, so its \`price\` for a million tokens is required, as IN/OUT`;
    return fail('usage', message);
  }
  const [input = '', output = '', ...more] = price.split('/');
  if (more.length > 0 || ![input, output].every((text) => parseMoney(text).ok)) {
    return fail('usage', `\`price\` is ${price}; it must be two amounts, such as \`0.15/0.60\``);
  }
  return ok({ input_per_million: Number(input), output_per_million: Number(output) });
}

/** Returns the name of the provider. A provider of the user with the same address is replaced. */
function providerName(
  { kind, root }: ServerModels,
  name: string | undefined,
  { layers }: ReturnType<Library['config']>,
): Outcome<string> {
  const provider = name ?? kind;
  if (!NAME.test(provider)) {
    return fail(
      'usage',
      `provider name \`${provider}\` must have lower-case letters, digits, _ and -`,
    );
  }
  const rows = layers.flatMap(({ value }) => getOwn(objectAt(value, 'providers'), provider) ?? []);
  if (rows.every((row) => textAt(row, 'base_url') === `${root}/v1`)) return ok(provider);
  const hint = 'choose another name with `--name`';
  return fail('invalid_input', `a provider \`${provider}\` exists with another address`, { hint });
}

/** Splits the models into those that are free to use, and those that another provider has. */
function sorted(
  { models }: ServerModels,
  provider: string,
  { value }: ReturnType<Library['config']>,
) {
  const isTaken = ({ id }: ServerModel): boolean => {
    const owner = textAt(getOwn(objectAt(value, 'models'), id), 'provider');
    return owner !== '' && owner !== provider;
  };
  return { own: models.filter((model) => !isTaken(model)), taken: models.filter(isTaken) };
}

const editor =
  (values: readonly { path: string[]; value: Json }[], file: string): UserFile['edit'] =>
  (before) => {
    const edited = withYamlValues(before, values);
    if (edited.ok) return edited;
    return fail('config_invalid', `\`${file}\`: ${edited.error.detail.message}; correct it first`);
  };

/** Returns the entries of the user's `models.yaml` and `pricing.yaml`. Nothing is written. */
export function addedModels(
  server: ServerModels,
  { name, key, price }: AddOptions,
  { library, home }: { library: Library; home: string },
): Outcome<AddedModels> {
  const config = library.config('models');
  const provider = providerName(server, name, config);
  if (!provider.ok) return provider;
  const row = priceRow(server, price);
  if (!row.ok) return row;
  const { own, taken } = sorted(server, provider.output, config);
  if (own.length === 0) {
    const message = `every model of \`${server.root}\` has an id that another provider has`;
    return fail('invalid_input', message, { hint: 'change the ids on the server' });
  }
  const models = own.map(({ id, window = UNKNOWN_WINDOW }) => ({ id, window }));
  const unknown = own.filter(({ window }) => window === undefined).map(({ id }) => id);
  const about = {
    protocol: 'openai_chat',
    tool: 'llm/openai_chat',
    base_url: `${server.root}/v1`,
    ...(key !== undefined && { key }),
    max_tokens_parameter: 'max_tokens',
  };
  const entry = { provider: provider.output, input: ['text'] };
  const [pricing, settings] = ['pricing', 'models'].map((file) =>
    join(home, 'config', `${file}.yaml`),
  );
  const prices = models.map(({ id, window }) => ({
    path: ['models', id],
    value: { ...row.output, context: window },
  }));
  const entries = [
    { path: ['providers', provider.output], value: about },
    ...models.map(({ id }) => ({ path: ['models', id], value: entry })),
  ];
  return ok({
    provider: provider.output,
    models,
    warnings: [
      ...(unknown.length === 0
        ? []
        : [
            `the server does not tell the window of ${unknown.join(', ')}; ${UNKNOWN_WINDOW} tokens are assumed`,
          ]),
      ...taken.map(({ id }) => `model ${id} is left out, because another provider has this id`),
    ],
    files: [
      { file: pricing ?? '', edit: editor(prices, pricing ?? '') },
      { file: settings ?? '', edit: editor(entries, settings ?? '') },
    ],
  });
}
