// Defines the shapes of the data files. Other folders read more fields than these shapes check, so an
// unknown field is a warning. A value of the wrong type is an error and is left out.
import {
  flag,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listOf,
  mapping,
  numberBetween,
  oneOf,
  type Rule,
  record,
  tableOf,
  text,
  textLike,
  wholeBetween,
  wrongType,
} from '../../base/index.ts';
import { COMPACT_MODES } from '../../flow/index.ts';

export type DataName = 'pricing' | 'models' | 'capabilities' | 'limits';
export const DATA_NAMES: readonly DataName[] = ['pricing', 'models', 'capabilities', 'limits'];

/** Returns a rule that drops invalid values of these fields. Other fields stay, with a warning. */
const open = (fields: Readonly<Record<string, Rule<Json>>>): Rule<JsonObject> =>
  record(fields, { open: true }) as Rule<JsonObject>;

/** Reads money or a rate: a number or a decimal text, never below zero. */
const amount: Rule<Json> = (value, place) => {
  const isDecimal = typeof value === 'string' && /^\d{1,12}(\.\d{1,12})?$/.test(value);
  const isNumber = typeof value === 'number' && value >= 0 && value < 1e12;
  return isDecimal || isNumber ? value : wrongType(place, 'an amount such as 2.50', value);
};
const currency = textLike(/^[A-Z]{3}$/, 'a currency such as USD');
const count = wholeBetween(0, Number.MAX_SAFE_INTEGER);
const texts = listOf(text) as Rule<Json>;

const price = open({
  input_per_million: amount,
  output_per_million: amount,
  cache_read_per_million: amount,
  cache_write_per_million: amount,
  context: count,
  aliases: texts,
  free: flag,
});

const pricing = open({
  currency,
  models: tableOf(price),
  default: price,
  rates: tableOf(amount),
});

const models = open({
  providers: tableOf(
    open({
      protocol: text,
      tool: text,
      thread_tool: text,
      base_url: text,
      key: text,
      models: texts,
      max_tokens_parameter: text,
      package: text,
      create: text,
      options: mapping,
      hosts: texts,
      reasoning: text,
      elsewhere: open({ protocol: text, tool: text, thread_tool: text }),
    }),
  ),
  tiers: tableOf(open({ provider: text, model: text, fallback: text })),
  models: tableOf(
    open({
      provider: text,
      max_output: count,
      reasoning: text,
      aliases: texts,
      input: listOf(oneOf(['text', 'image', 'pdf'])),
      image_tokens: count,
      pdf_page_tokens: count,
    }),
  ),
});

const files = {
  image_bytes: count,
  image_pixels: count,
  pdf_bytes: count,
  pdf_pages: count,
  request_files: count,
  request_bytes: count,
};

const share = numberBetween(0, 1, 'a share from 0 to 1');

const limits = open({
  defaults: open({
    turns: count,
    tokens: count,
    spawns: count,
    duration: count,
    spend: amount,
    spend_currency: currency,
    input_tokens: count,
    output_tokens: count,
    context: count,
    context_warn: share,
    context_compact: oneOf(COMPACT_MODES),
    depth: count,
    tool_calls: count,
  }),
  hook_reserve: share,
  raise_factor: amount,
  compaction: open({
    at: numberBetween(0.3, 0.95, 'a share from 0.3 to 0.95'),
    keep: numberBetween(1, 50, 'a number of turns from 1 to 50'),
    model: text,
    result_characters: count,
    frees: share,
    enough: share,
    kept: share,
    facts: share,
    summary_tokens: count,
  }),
  min_output_tokens: count,
  max_result: count,
  files: open({ ...files, providers: tableOf(open(files)) }),
  retries: open({
    pauses: listOf(amount),
    patience: amount,
    tries: count,
    fallback_after: count,
    longest_wait: amount,
  }),
});

/** Checks only the shape around the entries. The catalog of capabilities checks the entries. */
const capabilities: Rule<JsonObject> = open({
  capabilities: (value, place) =>
    Array.isArray(value) ? texts(value, place) : mapping(value, place),
  description: text,
  tool_id: text,
  tool_type: text,
  version: text,
  category: text,
});

export const DATA_SHAPES: Readonly<Record<DataName, Rule<JsonObject>>> = {
  pricing,
  models,
  capabilities,
  limits,
};

/** Returns the models whose merged row lacks a price, because the cost of a request would be too low. */
export function unpricedModels(pricing: JsonObject): string[] {
  const rows = isObject(pricing.models) ? pricing.models : {};
  const has = (row: Json, field: string): boolean => getOwn(row, field) !== undefined;
  const isPriced = (row: Json): boolean =>
    getOwn(row, 'free') === true ||
    (has(row, 'input_per_million') && has(row, 'output_per_million'));
  return Object.keys(rows).filter((model) => !isPriced(rows[model] ?? null));
}
