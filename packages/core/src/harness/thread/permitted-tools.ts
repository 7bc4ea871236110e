// The tools that a thread may execute, as its model is told about them: in the opening, so that no turn
// is spent on looking them up, and as functions of their own where the directive wants that. Being named
// gives no right: every call is judged by itself.
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
/** A plan is written without looking anything up. */
const MAX_BYTES_OF_PLAN = 64_000;
const MAX_DESCRIPTION = 120;

/** Tokens are asked for what a parent may do. */
type PermittedPorts = Pick<HarnessPorts, 'library' | 'project' | 'policies'> &
  Partial<Pick<HarnessPorts, 'tokens'>>;

const isGlob = (id: string): boolean => /[*?[{]/.test(id);

/** Named ones first, in their order; then whatever a pattern lets in, by id. */
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
  const found: ToolSignature[] = [];
  for (const item of candidates(ports, grants)) {
    if (among ? !among.has(item.id) : found.length === MAX_TOOLS) continue;
    const asked = { capability: 'tool.execute', scope: { id: item.id } };
    // Most are let in by no name, signed or not: their files are not looked at.
    if (!grantsAllow(grants, { ...asked, signed: true }, catalog)) continue;
    const need = { ...asked, signed: item.signature.state !== 'unsigned' };
    if (!grantsAllow(grants, need, catalog) || parents?.check(need).ok === false) continue;
    const signature = signatureOf(library, item);
    if (signature?.requires.some((names) => names.every(holds))) found.push(signature);
  }
  return found;
}

const firstWords = (text: string): string => {
  const [line = ''] = text.trim().split('\n', 1);
  return line.length > MAX_DESCRIPTION ? `${line.slice(0, MAX_DESCRIPTION)}…` : line;
};

/** For the opening; what is too much for it is counted. */
export function toolsTold(
  tools: readonly ToolSignature[],
  isNative: boolean,
  isPlanned = false,
): JsonObject {
  const told: JsonObject[] = [];
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
    told.push(one);
  }
  const more = tools.length - told.length;
  return { tools: told, ...(more > 0 && { more_tools: `${more} more; \`search\` finds them` }) };
}

/** A function that the model sees by the name of the tool. A call of it is an `execute` of that tool. */
interface NativeTool extends ToolDefinition {
  item_id: string;
}

const VERBS: ReadonlySet<string> = new Set(['search', 'load', 'execute', 'help']);
const MAX_NAME = 64;
const PLAIN = /^[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*(?:\/[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)*$/;

/**
 * What providers take as a name: letters, digits, `_` and `-`, 64 at most. `/` becomes `__`. INVARIANT:
 * two ids never have the same name: what could be read in two ways ends with a hash behind `___`, which
 * no other name holds.
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
    item_id: id,
  }));

/** A call of a function that was offered, as the `execute` that it is. */
export function asExecute(
  tools: readonly (ToolDefinition | NativeTool)[] | undefined,
  call: ToolCallBlock,
): ToolCallBlock {
  const native = tools?.find(({ name }) => name === call.name);
  if (!native || !('item_id' in native)) return call;
  const request = { item_type: 'tool', item_id: native.item_id, parameters: call.arguments };
  return { ...call, name: 'execute', arguments: request };
}
