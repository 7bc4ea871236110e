// Lists the tools that a thread can execute, for its model: in the opening, so that the model needs no search, and
// as functions if the directive declares that. The list gives no right, because every call is checked by itself.
import { createHash } from 'node:crypto';
import type { JsonObject } from '../../base/index.ts';
import type { Directive, ToolItem } from '../../items/index.ts';
import {
  functionSchema,
  parameterWords,
  signatureOf,
  type ToolSignature,
  tokenAuthority,
} from '../../kernel/index.ts';
import type { ToolCallBlock, ToolDefinition } from '../../llm/index.ts';
import {
  createCeilingVerifier,
  type Grant,
  grantsAllow,
  grantsFromPermissions,
  missingAtStart,
} from '../../trust/index.ts';
import type { HarnessPorts, RightsHolder } from './thread.ts';

/** Maximum number of listed tools. A search finds the others. */
const MAX_TOOLS = 40;
const MAX_BYTES = 8000;
/** Limit for a plan, which is longer because its model cannot search. */
const MAX_BYTES_OF_PLAN = 64_000;
const MAX_DESCRIPTION = 120;

/** Ports for the list. The rights of a parent are checked with `tokens`. */
type PermittedPorts = Pick<HarnessPorts, 'library' | 'project' | 'policies'> &
  Partial<Pick<HarnessPorts, 'tokens'>>;

const isGlob = (id: string): boolean => /[*?[{]/.test(id);

/** Returns the named tools in their order, then all others if a pattern can match them. */
function candidates({ library }: PermittedPorts, grants: readonly Grant[]): ToolItem[] {
  const ids = grants.flatMap(({ scope }) => scope?.id ?? []);
  const named = ids.flatMap((id) => {
    const found = isGlob(id) ? undefined : library.find('tool', id);
    return found?.ok ? [found.output] : [];
  });
  const rest = ids.some(isGlob) || grants.some(({ capability }) => isGlob(capability));
  return [...new Set([...named, ...(rest ? library.all('tool') : [])])];
}

/**
 * Returns the declared tools of a directive that policies and the parent allow. `among`: all allowed tools
 * with these ids. Absent: at most as many as a model gets listed.
 */
export function permittedTools(
  ports: PermittedPorts,
  directive: Directive,
  parent?: RightsHolder,
  among?: ReadonlySet<string>,
): readonly ToolSignature[] {
  const { library, project } = ports;
  const { catalog } = library.capabilities();
  const resolve = (name: string) => {
    const found = library.find('tool', name);
    return found.ok ? { ok: true as const, output: found.output.id } : found;
  };
  const permissions = directive.permissions ?? { entries: [] };
  const { grants } = grantsFromPermissions(permissions, catalog, resolve, project);
  const ceiling = createCeilingVerifier(ports.policies().policy.ceilings(), catalog);
  const above = parent && ports.tokens?.verify(parent.rights.own.auth, parent.place.id);
  const parents = above?.ok ? tokenAuthority(above.output) : undefined;
  if (parent && !parents) return [];
  const holds = (name: string): boolean =>
    missingAtStart([{ capability: name }], grants, catalog).missing.length === 0 &&
    ceiling.holds(name).ok &&
    (parents === undefined || parents.holds(name).ok);
  const permitted: ToolSignature[] = [];
  for (const item of candidates(ports, grants)) {
    if (among ? !among.has(item.id) : permitted.length === MAX_TOOLS) continue;
    const right = { capability: 'tool.execute', scope: { id: item.id } };
    // Most tools match no grant, even if they are signed. Their files are not read.
    if (!grantsAllow(grants, { ...right, signed: true }, catalog)) continue;
    const need = { ...right, signed: item.signature.state !== 'unsigned' };
    if (!grantsAllow(grants, need, catalog) || parents?.check(need).ok === false) continue;
    const signature = signatureOf(library, item);
    if (signature?.requires.some((names) => names.every(holds))) permitted.push(signature);
  }
  return permitted;
}

const firstWords = (text: string): string => {
  const [line = ''] = text.trim().split('\n', 1);
  return line.length > MAX_DESCRIPTION ? `${line.slice(0, MAX_DESCRIPTION)}…` : line;
};

/** Returns the list for the opening. Tools that do not fit are counted. */
export function describedTools(
  tools: readonly ToolSignature[],
  isNative: boolean,
  isPlanned = false,
): JsonObject {
  const list: JsonObject[] = [];
  let size = 0;
  for (const { id, description, schema } of tools) {
    const one = {
      id,
      ...(isNative && { function: nativeName(id) }),
      description: firstWords(description),
      parameters: parameterWords(schema),
    };
    size += JSON.stringify(one).length;
    if (size > (isPlanned ? MAX_BYTES_OF_PLAN : MAX_BYTES)) break;
    list.push(one);
  }
  const more = tools.length - list.length;
  return { tools: list, ...(more > 0 && { more_tools: `${more} more; \`search\` finds them` }) };
}

/** A function that the model sees under its own name. A call of it is an `execute` of this item. */
interface NativeTool extends ToolDefinition {
  item_type: 'tool' | 'directive';
  item_id: string;
  action?: 'return';
}

/** The function by which an agent of a program returns its outputs. */
export const RETURN_OUTPUT = 'return_output';
const VERBS: ReadonlySet<string> = new Set([
  'search',
  'load',
  'execute',
  'help',
  RETURN_OUTPUT,
  'read_result',
]);
const MAX_NAME = 64;
const PLAIN = /^[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*(?:\/[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)*$/;

/**
 * Returns a name that providers accept: letters, digits, `_` and `-`, 64 at most. `/` becomes `__`. INVARIANT: two
 * ids never have the same name. A name that could be read in two ways ends with `___` and a hash, and no other
 * name contains `___`.
 */
function nativeName(id: string): string {
  const plain = id.replaceAll('/', '__');
  if (PLAIN.test(id) && plain.length <= MAX_NAME && !VERBS.has(plain)) return plain;
  const hash = createHash('sha256').update(id).digest('hex').slice(0, 16);
  const words = id.replace(/[^A-Za-z0-9-]+/g, '_').slice(0, MAX_NAME - hash.length - 3);
  return `${words.replace(/^_+|_+$/g, '')}___${hash}`;
}

export const nativeTools = (tools: readonly ToolSignature[]): NativeTool[] =>
  tools.map(({ id, description, schema }) => ({
    name: nativeName(id),
    description: description.slice(0, 1000),
    input_schema: functionSchema(schema),
    item_type: 'tool',
    item_id: id,
  }));

/** Returns the function for the outputs of an agent. An agent without outputs answers with a text. */
export const outputTool = (id: string, { agent }: Pick<Directive, 'agent'>): NativeTool[] =>
  agent?.output
    ? [
        {
          name: RETURN_OUTPUT,
          description: 'Returns the result and ends the task.',
          input_schema: functionSchema(agent.output),
          item_type: 'directive',
          item_id: id,
          action: 'return',
        },
      ]
    : [];

/** Name of a call of a function that the model was not offered. No verb has it. */
export const NO_FUNCTION = '';

/** Returns the call of a function as a call of `execute`, and that of a verb as it is. */
export function asExecute(
  tools: readonly (ToolDefinition | NativeTool)[] | undefined,
  call: ToolCallBlock,
): ToolCallBlock {
  if (!tools) return call;
  const native = tools.find(({ name }) => name === call.name);
  if (!native) return { ...call, name: NO_FUNCTION };
  if (!('item_id' in native)) return call;
  const { item_type, item_id, action } = native;
  const request = { item_type, item_id, ...(action && { action }), parameters: call.arguments };
  return { ...call, name: 'execute', arguments: request };
}
