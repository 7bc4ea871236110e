// Reads the data files `.ai/config/{pricing,models,capabilities,limits}.yaml` of the bundle, the user and
// the project, and merges them in that order. Invalid parts of a file are reported and left out.
import { readdirSync } from 'node:fs';
import {
  type Diagnostic,
  getOwn,
  isObject,
  type JsonObject,
  mergeDeep,
  openYaml,
} from '../../base/index.ts';
import { aboutFile, type FileText, readInside } from '../files/item-file.ts';
import type { Root } from '../files/root.ts';
import type { Source } from '../item-kinds.ts';
import { DATA_SHAPES, type DataName, unpricedModels } from './data-shapes.ts';

export interface DataLayer {
  source: Source;
  file: string;
  value: JsonObject;
  /** True for capabilities as a list of names. A built-in name in the list is not a declaration. */
  isNameList: boolean;
}

export interface DataFile {
  value: JsonObject;
  /** The merged files, the strongest last. */
  layers: readonly DataLayer[];
  diagnostics: readonly Diagnostic[];
}

/** Maximum size of a file. A price list of all existing models is smaller. */
const MAX_DATA_BYTES = 2 * 1024 * 1024;
/** Levels with data files, the weakest first. Installed bundles contribute items, never data. */
const LEVELS: readonly Source[] = ['bundle', 'user', 'project'];

interface Parsed extends Pick<DataLayer, 'value' | 'isNameList'> {
  diagnostics: Diagnostic[];
}

/** Converts a list of names under `capabilities` to entries. All of them get the description of the file. */
function nameCapabilities(value: JsonObject): JsonObject {
  const listed = getOwn(value, 'capabilities');
  if (!Array.isArray(listed)) return isObject(listed) ? { capabilities: listed } : {};
  const meaning = getOwn(value, 'description') ?? 'declared without a description';
  const entries = listed.map((name) => [
    name as string,
    { meaning, scope: [], tier: 'write', implies: [] },
  ]);
  return { capabilities: Object.fromEntries(entries) as JsonObject };
}

function parse(name: DataName, content: FileText, file: string): Parsed {
  const none = { value: {}, isNameList: false };
  if ('problem' in content) {
    const { code, message } = content.problem;
    return { ...none, diagnostics: [aboutFile(file, code, message)] };
  }
  const opened = openYaml(content.text, file);
  const { diagnostics } = opened;
  if (diagnostics.length > 0 || opened.value === null) return { ...none, diagnostics };
  const value = DATA_SHAPES[name](opened.value, opened.place) ?? {};
  if (name !== 'capabilities') return { ...none, value, diagnostics };
  const isNameList = Array.isArray(value.capabilities);
  return { value: nameCapabilities(value), isNameList, diagnostics };
}

/** Returns the paths under a root where a data file may be, the strongest last. */
function placesOf(name: DataName, real: string): string[] {
  const config = [`config/${name}.yml`, `config/${name}.yaml`];
  if (name === 'pricing') return ['tools/llm/pricing.yml', 'tools/llm/pricing.yaml', ...config];
  return name === 'capabilities' ? [...capabilityFiles(real), ...config] : config;
}

function capabilityFiles(real: string): string[] {
  try {
    const names = readdirSync(`${real}/tools/capabilities`).filter((name) => /\.ya?ml$/.test(name));
    return names.sort().map((name) => `tools/capabilities/${name}`);
  } catch {
    return [];
  }
}

/** Removes and reports incomplete prices. INVARIANT: a row that stays always has the prices of a request. */
function dropUnpriced(value: JsonObject, layers: readonly DataLayer[], into: Diagnostic[]): void {
  const rows = { ...(value.models as JsonObject | undefined) };
  for (const model of unpricedModels(value)) {
    const file = layers.findLast((layer) => getOwn(layer.value.models, model) !== undefined)?.file;
    const message = `the price of \`${model}\` needs \`input_per_million\` and \`output_per_million\``;
    const hint = 'add both, or write `free: true`';
    into.push(aboutFile(file ?? '', 'price_incomplete', message, { hint }));
    delete rows[model];
  }
  if (value.models !== undefined) value.models = rows;
}

/**
 * Removes the currency and existing rates from a project's prices, because the user or the bundle sets
 * them.
 */
function inCurrency(own: JsonObject, others: JsonObject): JsonObject {
  const { currency, rates, ...rest } = own;
  const otherRates = isObject(others.rates) ? others.rates : {};
  const added = Object.entries(isObject(rates) ? rates : {}).filter(
    ([name]) => !Object.hasOwn(otherRates, name),
  );
  return {
    ...rest,
    ...(currency === undefined || others.currency !== undefined ? {} : { currency }),
    ...(added.length === 0 ? {} : { rates: Object.fromEntries(added) }),
  };
}

interface ReadLayer {
  layer: DataLayer;
  problems: readonly Diagnostic[];
}

/** Returns a reader of the present files. It parses the same text only once. */
export function createDataReader() {
  const parsed = new Map<string, { text: string; result: Parsed }>();

  function parseOnce(name: DataName, content: FileText, file: string): Parsed {
    const text = 'text' in content ? content.text : `\0${content.problem.code}`;
    const cached = parsed.get(file);
    if (cached?.text === text) return cached.result;
    const result = parse(name, content, file);
    parsed.set(file, { text, result });
    return result;
  }

  function readLevel(name: DataName, root: Root, real: string): ReadLayer[] {
    return placesOf(name, real).flatMap((path) => {
      const content = readInside(real, path, MAX_DATA_BYTES);
      if (content === undefined) return [];
      const file = `${root.dir}/${path}`;
      const { value, isNameList, diagnostics } = parseOnce(name, content, file);
      return [{ layer: { source: root.source, file, value, isNameList }, problems: diagnostics }];
    });
  }

  /** Shipped files do not change while a process runs. */
  const shipped = new Map<string, ReadLayer[]>();
  function shippedOf(name: DataName, root: Root, real: string): ReadLayer[] {
    const key = `${name}:${real}`;
    const layers = shipped.get(key) ?? readLevel(name, root, real);
    shipped.set(key, layers);
    return layers;
  }

  return (name: DataName, roots: readonly { root: Root; real: string | undefined }[]): DataFile => {
    const read = LEVELS.flatMap((level) =>
      roots.flatMap(({ root, real }) => {
        if (root.source !== level || real === undefined) return [];
        return level === 'bundle' ? shippedOf(name, root, real) : readLevel(name, root, real);
      }),
    );
    const layers = read.map(({ layer }) => layer);
    const diagnostics = read.flatMap(({ problems }) => problems);
    const isOwn = (source: Source) => name === 'pricing' && source === 'project';
    const value = layers.reduce<JsonObject>(
      (merged, { source, value: own }) =>
        mergeDeep(merged, isOwn(source) ? inCurrency(own, merged) : own),
      {},
    );
    if (name === 'pricing') dropUnpriced(value, layers, diagnostics);
    return { value, layers, diagnostics };
  };
}
