// Reads `expose`, which offers an item of any kind and form to MCP clients in native mode. The reader of
// the item's file reports the problems.
import { isObject, type Json, nearest, type Rule } from '../base/index.ts';
import type { ItemKind } from './item-kinds.ts';

const EXPOSURES = ['tool', 'prompt', 'resource'] as const;
type Exposure = (typeof EXPOSURES)[number];

export interface Exposed {
  readonly mcp: Exposure;
  /** Name for clients. Absent: the last segment of the item's id. */
  readonly name?: string;
  /** Address of a resource. A `{variable}` is a parameter of the tool. Absent: the address follows from the id. */
  readonly uri?: string;
  readonly mime_type?: string;
}

interface ExposeProblem {
  readonly code: 'expose_invalid' | 'expose_unsupported';
  /** Name of the invalid field. Absent: the problem is about the whole value. */
  readonly field?: string;
  readonly message: string;
  readonly hint?: string;
}

const OFFERED: Readonly<Record<ItemKind, readonly Exposure[]>> = {
  directive: ['prompt', 'tool'],
  tool: ['tool', 'resource', 'prompt'],
  knowledge: ['resource'],
};

const NAME = /^[A-Za-z0-9_.-]{1,128}$/;
const MIME_TYPE = /^[a-z0-9.+-]+\/[a-z0-9.+-]+$/;
/** Schemes whose addresses the MCP server itself serves. */
const OWN_SCHEMES = ['thread:', 'directive:', 'knowledge:', 'skill:', 'result:'];
const VARIABLE = /\{([A-Za-z_][A-Za-z0-9_]{0,63})\}/g;
const MAX_URI = 1000;

/** Returns the variables of an address, in order. Empty for the address of a single resource. */
export const uriVariables = (uri: string): string[] =>
  [...uri.matchAll(VARIABLE)].map(([, name = '']) => name);

function uriProblem(uri: string): Pick<ExposeProblem, 'message' | 'hint'> | undefined {
  const names = uriVariables(uri);
  const plain = uri.replaceAll(VARIABLE, 'x');
  const hint = 'e.g. `notes://{id}/text`';
  if (uri.length > MAX_URI || /[{}]/.test(plain) || new Set(names).size !== names.length) {
    return { message: `\`${uri.slice(0, 100)}\` is not an address or a template`, hint };
  }
  const url = URL.parse(plain);
  if (!url) return { message: `\`${uri}\` is not an address`, hint };
  if (/\{[^}]*\}/.test(uri.split(':', 1)[0] ?? '') || OWN_SCHEMES.includes(url.protocol)) {
    return { message: `the scheme \`${url.protocol}\` is reserved for the server`, hint };
  }
  // A client sends an address in its normal form, and the server looks up that form.
  if (url.href === plain) return undefined;
  return { message: `\`${uri}\` is not in its normal form`, hint: `write \`${url.href}\`` };
}

function fieldProblems(kind: ItemKind, settings: Readonly<Record<string, Json>>): ExposeProblem[] {
  const code = 'expose_invalid';
  const problems: ExposeProblem[] = [];
  const { name, uri, mime_type, mcp } = settings;
  if (name !== undefined && !(typeof name === 'string' && NAME.test(name))) {
    const message = 'the exposed `name` must consist of letters, digits, `_`, `-` and `.`';
    problems.push({ code, field: 'name', message });
  }
  if (mime_type !== undefined && !(typeof mime_type === 'string' && MIME_TYPE.test(mime_type))) {
    const message = '`mime_type` must look like `text/plain`';
    problems.push({ code, field: 'mime_type', message });
  }
  if (mcp !== 'resource') {
    for (const field of ['uri', 'mime_type'].filter((one) => settings[one] !== undefined)) {
      problems.push({ code, field, message: `only a resource has a \`${field}\`` });
    }
  } else if (typeof uri === 'string') {
    const wrong = uriProblem(uri);
    if (wrong) problems.push({ code, field: 'uri', ...wrong });
    else if (kind === 'knowledge' && uriVariables(uri).length > 0) {
      problems.push({ code, field: 'uri', message: 'the address of knowledge has no variables' });
    }
  } else if (uri !== undefined || kind === 'tool') {
    const hint = 'e.g. `uri: notes://list`';
    problems.push({ code, field: 'uri', message: 'a resource needs its `uri`', hint });
  }
  return problems;
}

/** Returns the problems of `expose` of an item of this kind. Without problems the value is an `Exposed`. */
export function exposeProblems(kind: ItemKind, settings: Json): ExposeProblem[] {
  const code = 'expose_invalid';
  if (!isObject(settings)) return [{ code, message: '`expose` must be like `{mcp: tool}`' }];
  const validNames = ['mcp', 'name', 'uri', 'mime_type'];
  const odd = Object.keys(settings).filter((name) => !validNames.includes(name));
  const problems: ExposeProblem[] = odd.map((field) => ({
    code,
    field,
    message: `\`${field.slice(0, 100)}\` is not a surface for a ${kind}`,
    hint: 'the only surface is `mcp`',
  }));
  if (settings.mcp === undefined && problems.length > 0) return problems;
  const offered = OFFERED[kind];
  const surface =
    typeof settings.mcp === 'string' ? settings.mcp : JSON.stringify(settings.mcp ?? null);
  const exposure = EXPOSURES.find((one) => one === surface);
  if (!exposure) {
    const near = nearest(surface, EXPOSURES) ?? offered[0];
    const message = `\`mcp\` is \`${surface.slice(0, 100)}\`, but must be one of ${EXPOSURES.join(', ')}`;
    return [...problems, { code, field: 'mcp', message, hint: `did you mean \`${near}\`` }];
  }
  if (!offered.includes(exposure)) {
    const message = `a ${kind} cannot be an MCP ${exposure}`;
    const hint = `write \`${offered.join('` or `')}\`, or leave it out`;
    return [...problems, { code: 'expose_unsupported', field: 'mcp', message, hint }];
  }
  return [...problems, ...fieldProblems(kind, settings)];
}

/** Returns how an item is exposed. Undefined for an absent or invalid value. */
export const readExposed = (kind: ItemKind, settings: Json | undefined): Exposed | undefined =>
  settings !== undefined && exposeProblems(kind, settings).length === 0
    ? // `exposeProblems` has checked each field.
      (settings as unknown as Exposed)
    : undefined;

export const exposeRule =
  (kind: ItemKind): Rule<Exposed> =>
  (value, place) => {
    for (const { field, ...problem } of exposeProblems(kind, value)) {
      (field === undefined ? place : place.child(field)).report(problem);
    }
    return readExposed(kind, value);
  };
