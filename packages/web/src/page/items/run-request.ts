// Converts the fields of the run form to a request. Each text is parsed by the type of its input.
// Limits can only be lowered. Errors are per field, also those of the server.
import type { Data, ItemInput, LimitMeter, RunRequestBody } from '../../model/api.ts';
import { shellWord } from '../../model/format.ts';
import type { PageFault } from '../api.ts';

export interface RunFields {
  readonly inputs: Readonly<Record<string, string>>;
  readonly limits: Readonly<Record<string, string>>;
  readonly model: string;
  readonly message: string;
}
/** Errors per field. Keys are `inputs.NAME` and `limits.NAME`. */
export type FieldFaults = Readonly<Record<string, string>>;

const JSON_TYPES = new Set(['object', 'array', 'list', 'json', 'any']);
export const isJsonInput = ({ type }: ItemInput): boolean => JSON_TYPES.has(type);

const asWritten = (value: Data): string =>
  typeof value === 'string' ? value : JSON.stringify(value);

export const startText = ({ default: start }: ItemInput): string =>
  start === undefined || start === null ? '' : asWritten(start);

/** Texts of the options of a select. */
export const enumTexts = ({ enum: options = [] }: ItemInput): readonly string[] =>
  options.map(asWritten);

function readJson(text: string): Data | undefined {
  try {
    return JSON.parse(text) as Data;
  } catch {
    return undefined;
  }
}

/** Returns the value of an input, or the description of a valid value. */
function readInput(input: ItemInput, text: string): { value: Data } | { wants: string } {
  const { type, enum: options } = input;
  const match = options?.find((option) => asWritten(option) === text);
  if (match !== undefined) return { value: match };
  if (type === 'boolean') return { value: text === 'true' };
  if (type === 'number' || type === 'integer') {
    const value = Number(text);
    const isFit = Number.isFinite(value) && (type === 'number' || Number.isInteger(value));
    return isFit ? { value } : { wants: type === 'number' ? 'a number' : 'a whole number' };
  }
  if (!isJsonInput(input)) return { value: text };
  const value = readJson(text);
  if (value !== undefined) return { value };
  return type === 'any' ? { value: text } : { wants: `JSON (${type})` };
}

function readLimit({ name, max }: LimitMeter, text: string): { value: number } | { wants: string } {
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0) return { wants: 'a number' };
  if (max !== undefined && value > max) return { wants: `at most ${max}; a run can only lower it` };
  return { value: name === 'spend' ? value : Math.floor(value) };
}

/** Returns the request, or the errors that prevent it. */
export function readWish(
  directive: string,
  about: { readonly inputs: readonly ItemInput[]; readonly limits: readonly LimitMeter[] },
  fields: RunFields,
): { readonly wish: RunRequestBody } | { readonly faults: FieldFaults } {
  const faults: Record<string, string> = {};
  const inputs: Record<string, Data> = {};
  for (const input of about.inputs) {
    const text = fields.inputs[input.name] ?? '';
    if (text === '') {
      if (input.required) faults[`inputs.${input.name}`] = 'is required';
      continue;
    }
    const read = readInput(input, text);
    if ('wants' in read) faults[`inputs.${input.name}`] = `must be ${read.wants}`;
    else inputs[input.name] = read.value;
  }
  const limits: Record<string, number> = {};
  for (const limit of about.limits) {
    const text = (fields.limits[limit.name] ?? '').trim();
    if (text === '') continue;
    const read = readLimit(limit, text);
    if ('wants' in read) faults[`limits.${limit.name}`] = `must be ${read.wants}`;
    else limits[limit.name] = read.value;
  }
  if (Object.keys(faults).length > 0) return { faults };
  const [model, message] = [fields.model.trim(), fields.message.trim()];
  const request: RunRequestBody = {
    directive,
    inputs,
    ...(Object.keys(limits).length > 0 ? { limits } : {}),
    ...(model === '' ? {} : { model }),
    ...(message === '' ? {} : { message }),
  };
  return { wish: request };
}

const isFieldError = (value: unknown): value is { field: string; error: string } =>
  typeof value === 'object' &&
  value !== null &&
  'field' in value &&
  'error' in value &&
  typeof value.field === 'string' &&
  typeof value.error === 'string';

/** Maps an error of the server to fields. The form shows the whole error below the fields. */
export function faultsOf(fault: PageFault, inputs: readonly ItemInput[]): FieldFaults {
  const { errors, limit } = fault.detail;
  const faults: Record<string, string> = {};
  for (const one of Array.isArray(errors) ? errors.filter(isFieldError) : []) {
    const [name = ''] = one.field.split(/[.[]/);
    const isInput = inputs.some((input) => input.name === name);
    faults[isInput ? `inputs.${name}` : one.field] = one.error;
  }
  if (typeof limit === 'string') faults[`limits.${limit}`] = fault.detail.message;
  return faults;
}

/** Returns the equivalent `km run` command. */
export function runCommand({
  directive,
  inputs,
  limits = {},
  model,
  message,
}: RunRequestBody): string {
  const option = (name: string): string =>
    name === 'duration_seconds' ? 'duration' : name.replaceAll('_', '-');
  const words = [
    `km run ${shellWord(directive)}`,
    ...Object.entries(inputs).map(([name, value]) => shellWord(`${name}=${asWritten(value)}`)),
    ...Object.entries(limits).map(([name, value]) => `--${option(name)} ${value}`),
    model === undefined ? '' : `--model ${shellWord(model)}`,
    message === undefined ? '' : `--message ${shellWord(message)}`,
  ];
  return words.filter((word) => word !== '').join(' ');
}
