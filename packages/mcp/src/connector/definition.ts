// Computes pins: hashes of the approved definition of a tool, including the server that lists it. Fields
// that only affect the display (icons) are not included.
import { hash } from 'node:crypto';
import {
  canonicalJson,
  hasHidden,
  isDeeperThan,
  isObject,
  type Json,
  type JsonObject,
  textAt,
} from '@kernmantle/core/base';
import type { Listing, ServerTool } from '../client/pool.ts';
import { speaksToModels } from './texts.ts';

const MAX_DEFINITION = 64 * 1024;
const MAX_DEPTH = 40;

/** Parts of a pin, by their names in messages. */
const PARTS = ['server', 'title', 'description', 'input', 'output', 'annotations'] as const;
type PinnedPart = (typeof PARTS)[number];

export interface Pin {
  readonly pin: string;
  readonly parts: Readonly<Record<PinnedPart, string>>;
}

const digest = (value: Json): string => hash('sha256', canonicalJson(value));

/** Returns why a definition is refused. Undefined if it is valid. */
export function definitionProblem({ name, definition }: ServerTool): string | undefined {
  if (name === '') return 'it has no name';
  if (name.length > 1000) return 'its name is longer than 1000 characters';
  if (isDeeperThan(definition, MAX_DEPTH)) return `it is nested deeper than ${MAX_DEPTH} levels`;
  if (JSON.stringify(definition).length > MAX_DEFINITION) return 'its definition is too large';
  if (!isObject(definition.inputSchema ?? null)) return 'it has no input schema';
  return undefined;
}

/** Returns the pin of a tool. `identity` is the configured location of the server. */
export function pinOf(identity: JsonObject, server: JsonObject, tool: ServerTool): Pin {
  const { title, description, inputSchema, outputSchema, annotations } = tool.definition;
  const values: Readonly<Record<PinnedPart, Json>> = {
    server: { ...identity, name: server.name ?? null },
    title: title ?? null,
    description: description ?? null,
    input: inputSchema ?? null,
    output: outputSchema ?? null,
    annotations: annotations ?? null,
  };
  const parts = Object.fromEntries(PARTS.map((part) => [part, digest(values[part]).slice(0, 16)]));
  return {
    pin: `sha256:${digest({ ...values, tool: tool.name })}`,
    parts: parts as Pin['parts'],
  };
}

/** Returns the pin of all tools together, independent of their order. */
export function setPin(pins: ReadonlyMap<string, Pin>): string {
  const listed = [...pins].map(([name, { pin }]) => [name, pin]);
  return `sha256:${digest(Object.fromEntries(listed) as JsonObject)}`;
}

/** Returns the changed parts. If the file stores no parts, all of them count as changed. */
export const changedParts = (before: Json | undefined, now: Pin['parts']): PinnedPart[] =>
  PARTS.filter((part) => textAt(before, part) !== now[part]);

/** Returns remarks for the person who approves. The server chooses the annotations that they use. */
export function flagsOf({ name, definition }: ServerTool): string[] {
  const { annotations, description = '', title = '' } = definition;
  const hint = (key: string): Json | undefined =>
    isObject(annotations) ? annotations[key] : undefined;
  const { inputSchema = null, outputSchema = null } = definition;
  const words = JSON.stringify([title, description, inputSchema, outputSchema]);
  const flags: string[] = [];
  // The protocol defines `destructiveHint` and its default only for tools that do not only read.
  if (hint('readOnlyHint') !== true) {
    if (hint('destructiveHint') !== false) flags.push('destructive');
  } else if (hint('destructiveHint') === true) {
    flags.push('contradicts itself: read-only and destructive');
  } else flags.push('declares itself read-only');
  if (hint('openWorldHint') !== false) flags.push('open world');
  if (/[^\x20-\x7e]/.test(name)) flags.push('unusual characters in its name');
  if (hasHidden(readable(words)) || hasHidden(name)) flags.push('hidden characters');
  if (speaksToModels(readable(words))) flags.push('instructions to a model');
  return flags;
}

/** Restores control characters, which JSON writes as six visible characters. */
const readable = (json: string): string =>
  json.replace(/\\u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(parseInt(code, 16)));

/** Returns the listed names, and names that occur more than once. */
export function namesOf({ tools }: Pick<Listing, 'tools'>): {
  once: ServerTool[];
  twice: string[];
} {
  const groups = Map.groupBy(tools, ({ name }) => name);
  const once = [...groups.values()].flatMap((group) => (group.length === 1 ? group : []));
  return { once, twice: [...groups].flatMap(([name, group]) => (group.length > 1 ? name : [])) };
}
