// Turns the events of a thread into `session/update` notifications, while it runs and when a session is loaded. Texts
// are masked and bounded. INVARIANT: a diff is always made of the arguments of a call alone, so an update never shows
// more of a file than the call itself.
import { resolve } from 'node:path';
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  masked,
  textAt,
} from '@kernmantle/core/base';
import type { Library } from '@kernmantle/core/items';
import { argumentsText, eventFlags, type Noted, replyText } from '@kernmantle/core/journal';

type Send = (update: JsonObject) => void;

const [MAX_TITLE, MAX_CONTENT, MAX_SIDE] = [200, 16_384, 65_536];
/** Maximum number of calls whose ids are cached. */
const MAX_CALLS = 1000;

/** Masks secrets, then cuts the text. A reference to a secret that the cut would split is dropped. */
export function shown(text: string, max = MAX_CONTENT): string {
  if (text.length <= max) return masked(text);
  return `${masked(text.slice(0, max).replace(/\{secret [^{}]*$/, ''))}…`;
}

/** Masks secrets in all texts of a value. A value over the bound is its cut text. */
export function shownJson(value: Json, max = MAX_SIDE): Json {
  const text = JSON.stringify(value);
  if (text.length > max) return shown(text);
  const inner = (part: Json): Json => {
    if (typeof part === 'string') return masked(part);
    if (Array.isArray(part)) return part.map(inner);
    if (!isObject(part)) return part;
    return Object.fromEntries(
      Object.entries(part).map(([name, one]) => [masked(name), inner(one)]),
    );
  };
  return inner(value);
}

export const textBlock = (text: string): JsonObject => ({ type: 'text', text });
const contentOf = (text: string): JsonObject[] =>
  text === '' ? [] : [{ type: 'content', content: textBlock(shown(text)) }];

const parametersOf = (args: Json): JsonObject => {
  const inner = getOwn(args, 'parameters');
  return isObject(inner) ? inner : isObject(args) ? args : {};
};

/** Returns the absolute paths of the arguments with the role `path`. */
function pathsIn(library: Library, project: string, tool: string, values: JsonObject): string[] {
  const item = library.find('tool', tool);
  const parameters = item.ok && item.output.tool ? item.output.tool.parameters : [];
  return parameters.flatMap(({ name, role }) => {
    const value = getOwn(values, name);
    return role === 'path' && typeof value === 'string' ? [resolve(project, masked(value))] : [];
  });
}

/** Returns the change of a file as the arguments name it. A replaced file has no diff, because nobody read it. */
function diffOf(path: string | undefined, values: JsonObject, isNew: boolean): JsonObject[] {
  const [oldText, newText] = [textAt(values, 'old_string'), textAt(values, 'new_string')];
  const content = isNew ? textAt(values, 'content') : '';
  const sides = [oldText, newText, content];
  if (path === undefined || sides.some((side) => side.length > MAX_SIDE)) return [];
  if (newText !== '' || oldText !== '') {
    return [{ type: 'diff', path, oldText: masked(oldText), newText: masked(newText) }];
  }
  return content === '' ? [] : [{ type: 'diff', path, newText: masked(content) }];
}

interface UpdatePorts {
  readonly library: Library;
  readonly project: string;
  send: Send;
}

export type Updates = ReturnType<typeof createUpdates>;

export function createUpdates({ library, project, send }: UpdatePorts) {
  /** Calls that were announced, by the id that the client knows. */
  const calls = new Map<string, { paths: string[]; values: JsonObject }>();
  /** Arguments of the calls of the last reply. */
  const replied = new Map<string, JsonObject>();
  let [hasStreamed, isBroken, wasRefused, model] = [false, false, false, ''];

  const chunk = (kind: 'agent_message' | 'agent_thought' | 'person', text: string): void => {
    const sessionUpdate = kind === 'person' ? 'user_message_chunk' : `${kind}_chunk`;
    if (text !== '') send({ sessionUpdate, content: textBlock(masked(text)) });
  };
  /** Ids of providers can repeat in a thread, so the turn is a part of the id. */
  const idOf = (turn: number, call: string): string => `${turn}-${call}`.slice(0, 200);

  /**
   * Announces a call, or returns the update of an announced one. The kind is never `read`, `search`, `think` or
   * `fetch`, because clients approve these without asking.
   */
  function announce(id: string, tool: string, args: Json, status: string): JsonObject {
    const values = parametersOf(args);
    const paths = pathsIn(library, project, tool, values);
    const isKnown = calls.has(id);
    calls.set(id, { paths, values });
    const [oldest] = calls.keys();
    if (calls.size > MAX_CALLS && oldest !== undefined) calls.delete(oldest);
    const isEdit = 'old_string' in values || 'content' in values;
    const call = {
      toolCallId: id,
      title: shown(`${tool} ${argumentsText(args)}`.trim(), MAX_TITLE),
      kind: paths.length > 0 && isEdit ? 'edit' : 'command' in values ? 'execute' : 'other',
      status,
      rawInput: shownJson(values),
      locations: paths.map((path) => ({ path })),
      content: diffOf(paths[0], values, false),
    };
    send({ sessionUpdate: isKnown ? 'tool_call_update' : 'tool_call', ...call });
    return call;
  }
  const finish = (id: string, isError: boolean, content: Json): void => {
    const call = calls.get(id);
    // The harness itself makes the call that opens a conversation.
    if (!call) return;
    calls.delete(id);
    const output = getOwn(content, 'output') ?? content;
    const created = getOwn(output, 'created') ?? getOwn(getOwn(output, 'output'), 'created');
    const diffs = isError ? [] : diffOf(call.paths[0], call.values, created === true);
    const text = typeof output === 'string' ? output : JSON.stringify(output, null, 2);
    const status = isError ? 'failed' : 'completed';
    const parts = diffs.length > 0 ? diffs : contentOf(text);
    send({ sessionUpdate: 'tool_call_update', toolCallId: id, status, content: parts });
  };

  function onEvent(event: Noted): void {
    const { type, data, turn } = event;
    if (type === 'tool_call')
      announce(idOf(turn, data.call_id), data.tool, data.arguments, 'in_progress');
    else if (type === 'tool_result') finish(idOf(turn, data.call_id), data.is_error, data.content);
    else if (eventFlags(type).turn === 'fails') {
      wasRefused ||= getOwn(getOwn(data, 'detail'), 'reason') === 'refusal';
    } else if (type === 'assistant_message' && !data.injected) {
      // A plan, a summary and the reply to a script are no part of the conversation.
      if (data.plan !== undefined || data.compact !== undefined || data.apart) return;
      wasRefused ||= data.stop === 'refusal';
      model = data.model;
      replied.clear();
      for (const block of data.content) {
        if (block.type === 'thinking') chunk('agent_thought', block.text);
        if (block.type === 'tool_call')
          replied.set(idOf(turn, block.id), parametersOf(block.arguments));
      }
      if (!hasStreamed) chunk('agent_message', replyText(data.content));
      hasStreamed = false;
    } else if (eventFlags(type).turn === 'ends') {
      // ACP cannot take text back, so the next answer says that it is a new one.
      [isBroken, hasStreamed] = [isBroken || hasStreamed, false];
    }
  }

  return {
    announce,
    idOf,
    chunk,
    /** Returns the whole arguments of a call of the last reply. Undefined for another call. */
    argumentsOf: (id: string) => replied.get(id),
    /** The model of the last reply. */
    model: () => model,
    /** True if the model refused since the prompt. */
    wasRefused: () => wasRefused,
    /** A new prompt begins. What was said before it is not continued. */
    begin(): void {
      [hasStreamed, isBroken, wasRefused] = [false, false, false];
    },
    onText(piece: string): void {
      if (isBroken) chunk('agent_message', '\n\n[the answer broke off; this is a new one]\n\n');
      [hasStreamed, isBroken] = [true, false];
      chunk('agent_message', piece);
    },
    onEvent,
    /** Sends an event of the past, with the messages of people. */
    onPast(event: Noted): void {
      onEvent(event);
      const { type, data } = event;
      if (type !== 'injected_message' || data.by === 'harness' || data.reminder || data.file)
        return;
      chunk('person', data.text);
    },
  };
}
