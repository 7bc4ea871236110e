// Resolves a directive's `tier` or `model_id` to a provider, its tool and a model id, with the data of
// models.yaml. A new provider with a known protocol needs only YAML.
import {
  compact,
  didYouMean,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  matchGlob,
  mergeDeep,
  numberAt,
  type Outcome,
  objectAt,
  ok,
  textAt,
  textsAt,
} from '../base/index.ts';
import type { DataLayer } from '../items/index.ts';
import type { SdkModel } from './ai-sdk.ts';
import type { Protocol } from './message.ts';

/** Address of a user's own provider, and the variable with its key. Without a variable no key is sent. */
export interface ProviderEndpoint {
  base_url?: string;
  key?: string;
}

/** A package of the user that creates model objects of the AI SDK. */
export interface SdkPackage {
  readonly package: string;
  /** Name of the function that creates the provider, and its options. */
  readonly create: string;
  readonly options: JsonObject;
  /** Hosts that its requests may reach, with a port if it is not the default one. */
  readonly hosts: readonly string[];
}

export interface ResolvedModel {
  model: string;
  provider: string;
  protocol: Protocol | 'ai_sdk';
  /** Source of the model object, with the protocol `ai_sdk`. `program`: its name in the embedding program. */
  sdk?: SdkPackage | { readonly program: string };
  /** Id under which the price is looked up first. Absent: `model`. */
  price_id?: string;
  /** Tool that sends a turn of a thread: `thread_tool` of the provider, or `plain_tool` if it has none. */
  provider_tool: string;
  /** Tool that sends a request outside of a thread. */
  plain_tool: string;
  /** Provider whose limits apply, if a project gave another name to it. Absent: its own limits apply. */
  limited_as?: string;
  /** Environment variable with the key. Absent: the provider needs none. */
  key_variable?: string;
  /** Endpoint of a provider that the user added or moved. Absent: the tool's own address. */
  endpoint?: ProviderEndpoint;
  /** Model to use if this one is unavailable, overloaded or refuses. Absent: no other model is used. */
  fallback?: string;
  /** Maximum number of tokens of one answer. Absent: `models.yaml` states no maximum. */
  max_output?: number;
  /** Name of the parameter that limits the answer in an OpenAI request, because servers differ. */
  max_tokens_parameter?: string;
  /** The effort of a reasoning model. `off`: the server does not know such models. */
  reasoning?: string;
  /** Kinds of files that the model accepts besides text. Absent: none. */
  input?: readonly FileKind[];
  /** Estimated tokens of one image, and of one page of a PDF. Absent: safe figures. */
  image_tokens?: number;
  pdf_page_tokens?: number;
}

export type FileKind = 'image' | 'pdf';
const FILE_KINDS: readonly FileKind[] = ['image', 'pdf'];
const KINDS: ReadonlyMap<string, FileKind> = new Map([
  ...['png', 'jpeg', 'gif', 'webp'].map((type) => [`image/${type}`, 'image'] as const),
  ['application/pdf', 'pdf'],
]);
/** Returns the kind of a file that models can read. */
export const fileKind = (mime: string): FileKind | undefined => KINDS.get(mime);

const PROTOCOLS: Readonly<Record<string, Protocol>> = {
  anthropic: 'anthropic',
  anthropic_messages: 'anthropic',
  openai: 'openai',
  openai_chat: 'openai',
  openai_responses: 'responses',
  gemini: 'gemini',
};

const wordAt = (value: Json | undefined, key: string): string | undefined =>
  textAt(value, key) || undefined;

type Environment = Readonly<Record<string, string | undefined>>;

interface ModelsFile {
  value: JsonObject;
  layers: readonly Pick<DataLayer, 'source' | 'value'>[];
}

/** Drops each `thread_tool` below a stronger `tool`. Marks a provider whose `base_url` only a project sets. */
function withThreadTools(value: JsonObject, layers: ModelsFile['layers']): JsonObject {
  const providers = { ...objectAt(value, 'providers') };
  for (const [name, provider] of Object.entries(providers)) {
    const isIn = (source: string): boolean =>
      layers.some(
        (layer) => layer.source === source && getOwn(objectAt(layer.value, 'providers'), name),
      );
    const isPackage = wordAt(provider, 'protocol') === 'ai_sdk';
    const isElsewhere = wordAt(provider, 'base_url') && !isIn('bundle');
    if (isObject(provider) && (isPackage || isElsewhere) && !isIn('user')) {
      providers[name] = { ...provider, misplaced: true };
      continue;
    }
    const limitOf = (field: string): number =>
      layers.findLastIndex((layer) =>
        wordAt(getOwn(objectAt(layer.value, 'providers'), name), field),
      );
    if (!isObject(provider) || limitOf('thread_tool') >= limitOf('tool')) continue;
    const { thread_tool: _, ...rest } = provider;
    providers[name] = rest;
  }
  return providers;
}

const toolsOf = (provider: Json | undefined): string[] =>
  [provider, getOwn(provider, 'elsewhere')].flatMap((one) =>
    ['tool', 'thread_tool'].flatMap((field) => wordAt(one, field) ?? []),
  );

const DEFAULT_ADDRESS = /^\$\{(\w+):-([^}]*)\}$/;
const plainAddress = (address: string): string => address.replace(/(?:\/v\d+\w*)?\/*$/, '');

/**
 * Applies `elsewhere` to each provider of the bundle with another address than its default one, because such servers
 * often have only an older protocol. A stronger level that names a protocol or a tool decides itself.
 */
function withElsewhere(
  providers: JsonObject,
  { layers }: ModelsFile,
  env: Environment,
): JsonObject {
  const all = { ...providers };
  for (const [name, provider] of Object.entries(providers)) {
    const elsewhere = getOwn(provider, 'elsewhere');
    if (!isObject(provider) || !isObject(elsewhere)) continue;
    const entries = layers.map(({ source, value }) => {
      return { source, entry: getOwn(objectAt(value, 'providers'), name) };
    });
    const isChosen = entries.some(
      ({ source, entry }) =>
        source !== 'bundle' && (wordAt(entry, 'protocol') ?? wordAt(entry, 'tool')),
    );
    const shipped = entries.find(({ source }) => source === 'bundle')?.entry;
    const [, variable = '', usual = ''] =
      DEFAULT_ADDRESS.exec(wordAt(shipped, 'base_url') ?? '') ?? [];
    const address = wordAt(getOwn(provider, 'endpoint'), 'base_url') ?? (env[variable] || usual);
    if (isChosen || plainAddress(address) === plainAddress(usual)) continue;
    const { thread_tool: _, ...rest } = provider;
    all[name] = { ...rest, ...elsewhere };
  }
  return all;
}

/** INVARIANT: a provider with another name but the same key always counts towards the same limits. */
function withLimits(providers: JsonObject, shipped: JsonObject, own: JsonObject): JsonObject {
  for (const [name, provider] of Object.entries(providers)) {
    if (!isObject(provider) || getOwn(own, name)) continue;
    const { limited_as: _, ...rest } = provider;
    const foreign = toolsOf(provider).filter(
      (tool) => !toolsOf(getOwn(shipped, name)).includes(tool),
    );
    const [real] =
      Object.entries({ ...shipped, ...own }).find(([, one]) =>
        toolsOf(one).some((tool) => foreign.includes(tool)),
      ) ?? [];
    providers[name] = real === undefined ? rest : { ...rest, limited_as: real };
  }
  return providers;
}

/**
 * Returns the table with the endpoints of the user's own providers. INVARIANT: only the user or the
 * bundle ever decides where a key is sent; settings of a project for their providers do not count.
 */
export function withEndpoints(file: ModelsFile, env: Environment): JsonObject {
  const { value, layers } = file;
  const ofSource = (source: string): JsonObject =>
    layers
      .filter((layer) => layer.source === source)
      .reduce((all, layer) => mergeDeep(all, objectAt(layer.value, 'providers')), {});
  const [shipped, own] = [ofSource('bundle'), ofSource('user')];
  const providers = withLimits(withThreadTools(value, layers), shipped, own);
  for (const [name, mine] of Object.entries(own)) {
    const entry = getOwn(shipped, name);
    const { thread_tool, ...rest } = isObject(entry) ? entry : {};
    const settings = wordAt(mine, 'tool') || !thread_tool ? rest : { ...rest, thread_tool };
    const provider = mergeDeep(settings, isObject(mine) ? mine : {});
    const base_url = wordAt(mine, 'base_url');
    const isMoved = entry === undefined || base_url !== undefined || wordAt(mine, 'key');
    const endpoint = compact<ProviderEndpoint>({ base_url, key: wordAt(provider, 'key') });
    providers[name] = isMoved ? { ...provider, endpoint: { ...endpoint } } : provider;
  }
  return { ...value, providers: withElsewhere(providers, file, env) };
}

/** Returns the table with one endpoint for every provider, so that no other is called. An empty key: none is needed. */
export function withStandIn(models: JsonObject, standIn: ProviderEndpoint | undefined): JsonObject {
  if (!standIn) return models;
  const providers = Object.entries(objectAt(models, 'providers')).map(([name, provider]) => {
    const { key: own, ...rest } = isObject(provider) ? provider : {};
    const key = standIn.key ?? own ?? '';
    return [name, { ...rest, ...(key !== '' && { key }), endpoint: { ...standIn } }];
  });
  return { ...models, providers: Object.fromEntries(providers) };
}

const described = (word: string, names: readonly string[]): string => {
  return didYouMean(word, names) ?? `use one of: ${names.join(', ')}`;
};

/** Returns the entry of a model, by its id or by one of its aliases. */
function entryOf(models: JsonObject, id: string): { id: string; entry: Json } | undefined {
  const rows = objectAt(models, 'models');
  const own = getOwn(rows, id);
  if (own !== undefined) return { id, entry: own };
  const row = Object.entries(rows).find(([, entry]) => textsAt(entry, 'aliases').includes(id));
  return row && { id: row[0], entry: row[1] };
}

/** Returns the provider with the longest matching pattern in `models`. */
function providerByPattern(models: JsonObject, id: string): string | undefined {
  let best: { name: string; length: number } | undefined;
  for (const [name, provider] of Object.entries(objectAt(models, 'providers'))) {
    for (const pattern of textsAt(provider, 'models')) {
      if (pattern.length > (best?.length ?? 0) && matchGlob(pattern, id)) {
        best = { name, length: pattern.length };
      }
    }
  }
  return best?.name;
}

const endpointOf = (endpoint: JsonObject): ProviderEndpoint =>
  compact<ProviderEndpoint>({
    base_url: wordAt(endpoint, 'base_url'),
    key: wordAt(endpoint, 'key'),
  });

const PACKAGE = /^(@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*$/;
const HOST = /^[a-z0-9.-]+(:\d{1,5})?$|^\[[0-9a-f:]+\](:\d{1,5})?$/;

/** Returns the fields of a package, or the name of the first field that is missing or invalid. */
function sdkOf(provider: Json): SdkPackage | { program: string } | { missing: string } {
  const program = wordAt(provider, 'program');
  if (program !== undefined) return { program };
  const [name = '', create = ''] = [wordAt(provider, 'package'), wordAt(provider, 'create')];
  const hosts = textsAt(provider, 'hosts');
  if (!PACKAGE.test(name)) return { missing: '`package`' };
  if (!/^[A-Za-z_$][\w$]*$/.test(create)) return { missing: '`create`' };
  if (hosts.length === 0 || !hosts.every((host) => HOST.test(host))) {
    return { missing: '`hosts` (a list of host names without `*`)' };
  }
  return { package: name, create, options: objectAt(provider, 'options'), hosts };
}

/** Completes a model object of the AI SDK. Its provider decides which files it refuses. */
function completeSdk(
  model: string,
  name: string,
  provider: Json,
  entry: Json | undefined,
  fallback: string | undefined,
): Outcome<ResolvedModel> {
  const sdk = sdkOf(provider);
  if ('missing' in sdk) {
    return fail(
      'config_invalid',
      `provider \`${name}\` in models.yaml lacks a valid ${sdk.missing}`,
    );
  }
  return ok(
    compact<ResolvedModel>({
      // The journal has the ids of the object, because the name belongs to the program.
      model: wordAt(entry, 'model') ?? model,
      provider: name,
      protocol: 'ai_sdk',
      provider_tool: '',
      plain_tool: '',
      sdk,
      price_id: wordAt(entry, 'price_id'),
      key_variable: wordAt(provider, 'key'),
      fallback,
      max_output: numberAt(entry, 'max_output'),
      input: FILE_KINDS,
      image_tokens: numberAt(entry, 'image_tokens'),
      pdf_page_tokens: numberAt(entry, 'pdf_page_tokens'),
    }),
  );
}

/** Returns the table with the model objects of a program. Each is also found by its name there. */
export function withProgramModels(
  models: JsonObject,
  objects: Readonly<Record<string, SdkModel>> = {},
): JsonObject {
  const [providers, rows] = [
    { ...objectAt(models, 'providers') },
    { ...objectAt(models, 'models') },
  ];
  for (const [name, { provider, modelId }] of Object.entries(objects)) {
    const own = `program:${name}`;
    providers[own] = { protocol: 'ai_sdk', program: name };
    const id = `${provider}/${modelId}`;
    rows[name] = { provider: own, price_id: modelId, model: id };
    rows[id] ??= { provider: own, price_id: modelId };
  }
  return { ...models, providers, models: rows };
}

function complete(
  models: JsonObject,
  model: string,
  name: string,
  entry: Json | undefined,
  fallback: string | undefined,
): Outcome<ResolvedModel> {
  const providers = objectAt(models, 'providers');
  const provider = getOwn(providers, name);
  if (provider === undefined) {
    return fail('config_invalid', `model \`${model}\` needs the missing provider \`${name}\``, {
      hint: described(name, Object.keys(providers)),
    });
  }
  if (getOwn(provider, 'misplaced') === true) {
    const field = wordAt(provider, 'base_url') ? 'base_url' : 'package';
    return fail(
      'config_invalid',
      `\`${field}\` of provider \`${name}\` must not be set by a project; set it in \`~/.ai/config/models.yaml\``,
    );
  }
  const wireName = wordAt(provider, 'protocol') ?? '';
  if (wireName === 'ai_sdk') return completeSdk(model, name, provider, entry, fallback);
  const protocol = Object.hasOwn(PROTOCOLS, wireName) ? PROTOCOLS[wireName] : undefined;
  const plain_tool = wordAt(provider, 'tool');
  if (!protocol || plain_tool === undefined) {
    const missing = protocol
      ? '`tool`'
      : '`protocol` (anthropic_messages, openai_chat, openai_responses or gemini)';
    return fail('config_invalid', `provider \`${name}\` in models.yaml lacks a valid ${missing}`);
  }
  const max_output = getOwn(entry, 'max_output');
  const endpoint = getOwn(provider, 'endpoint');
  const resolved = compact<ResolvedModel>({
    model,
    provider: name,
    protocol,
    provider_tool: wordAt(provider, 'thread_tool') ?? plain_tool,
    plain_tool,
    limited_as: wordAt(provider, 'limited_as'),
    key_variable: wordAt(provider, 'key'),
    endpoint: isObject(endpoint) ? endpointOf(endpoint) : undefined,
    fallback,
    max_output: typeof max_output === 'number' ? max_output : undefined,
    max_tokens_parameter: wordAt(provider, 'max_tokens_parameter'),
    reasoning: wordAt(entry, 'reasoning') ?? wordAt(provider, 'reasoning'),
    input: FILE_KINDS.filter((kind) => textsAt(entry, 'input').includes(kind)),
    image_tokens: numberAt(entry, 'image_tokens'),
    pdf_page_tokens: numberAt(entry, 'pdf_page_tokens'),
  });
  return ok(resolved);
}

function byTier(models: JsonObject, tier: string): Outcome<ResolvedModel> {
  const tiers = objectAt(models, 'tiers');
  const row = getOwn(tiers, tier);
  if (row === undefined) {
    return fail('not_found', `model tier \`${tier.slice(0, 200)}\` not found`, {
      tier: tier.slice(0, 200),
      hint: `${described(tier, Object.keys(tiers))}; tiers are defined under \`tiers\` in \`~/.ai/config/models.yaml\``,
    });
  }
  const id = wordAt(row, 'model');
  if (id === undefined) {
    return fail('config_invalid', `tier \`${tier}\` in models.yaml has no \`model\``);
  }
  const match = entryOf(models, id);
  const model = match?.id ?? id;
  const name =
    wordAt(row, 'provider') ?? wordAt(match?.entry, 'provider') ?? providerByPattern(models, model);
  return complete(models, model, name ?? '', match?.entry, wordAt(row, 'fallback'));
}

/** `model_id` wins over `tier`. An id may also be the name of a tier, which hooks pass as `context.model`. */
export function resolveModel(
  models: JsonObject,
  request: { tier?: string; model_id?: string },
): Outcome<ResolvedModel> {
  const { tier, model_id } = request;
  if (model_id === undefined) {
    if (tier !== undefined) return byTier(models, tier);
    return fail('invalid_input', 'the model is missing; a model tier or a model id is required', {
      hint: `use one of the tiers: ${Object.keys(objectAt(models, 'tiers')).join(', ')}`,
    });
  }
  const match = entryOf(models, model_id);
  const model = match?.id ?? model_id;
  const name = wordAt(match?.entry, 'provider') ?? providerByPattern(models, model);
  if (name !== undefined) return complete(models, model, name, match?.entry, undefined);
  if (getOwn(objectAt(models, 'tiers'), model_id) !== undefined) return byTier(models, model_id);
  return fail('not_found', `provider of model \`${model_id.slice(0, 200)}\` not found`, {
    model: model_id.slice(0, 200),
    hint: 'add it under `models` with its `provider` in your own `~/.ai/config/models.yaml`, or in `.ai/config/models.yaml` of the project',
  });
}

/** Returns the names of the tiers whose model accepts all these kinds of files, for people. */
export const tiersFor = (models: JsonObject, kinds: readonly FileKind[]): string[] =>
  Object.keys(objectAt(models, 'tiers')).filter((tier) => {
    const resolved = byTier(models, tier);
    return resolved.ok && kinds.every((kind) => resolved.output.input?.includes(kind));
  });
