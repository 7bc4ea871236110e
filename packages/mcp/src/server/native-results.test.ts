import type { Json, JsonObject } from '@kernmantle/core/base';
import { isSpecType } from '@modelcontextprotocol/server';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createAnswers } from './answers.ts';
import { ownOutput, promptResult, resourceResult, toolResult } from './native-results.ts';

const answers = createAnswers({}, 'test', 500);
/**
 * Possible answers of a tool: arbitrary values, and values similar to blocks, messages and
 * contents.
 */
const block = fc.record(
  {
    type: fc.constantFrom('text', 'image', 'audio', 'resource', 'resource_link', 'odd'),
    text: fc.oneof(fc.string(), fc.jsonValue()),
    data: fc.oneof(fc.base64String(), fc.jsonValue()),
    mimeType: fc.oneof(fc.constant('image/png'), fc.jsonValue()),
    uri: fc.oneof(fc.webUrl(), fc.jsonValue()),
    resource: fc.jsonValue(),
    name: fc.string(),
  },
  { requiredKeys: [] },
);
const output = fc.oneof(
  fc.jsonValue(),
  fc.record(
    {
      content: fc.oneof(fc.array(block), fc.jsonValue()),
      messages: fc.oneof(
        fc.array(fc.record({ role: fc.constantFrom('user', 'odd'), content: block })),
        fc.jsonValue(),
      ),
      contents: fc.oneof(fc.array(block), fc.jsonValue()),
      blob: fc.oneof(fc.base64String(), fc.jsonValue()),
      text: fc.oneof(fc.string({ maxLength: 2000 }), fc.jsonValue()),
      isError: fc.oneof(fc.boolean(), fc.jsonValue()),
      mime_type: fc.jsonValue(),
      chain: fc.jsonValue(),
    },
    { requiredKeys: [] },
  ),
);
const own = (value: unknown): JsonObject =>
  ownOutput(JSON.parse(JSON.stringify(value ?? null)) as Json);

test('whatever a tool answers, what clients get is valid', () => {
  fc.assert(
    fc.property(output, fc.boolean(), (value, hasSchema) => {
      const schema = hasSchema ? { type: 'object' } : undefined;
      const result = toolResult(own(value), schema, answers);
      expect(isSpecType.CallToolResult(result)).toBe(true);
      expect(result.content.length > 0 || own(value).content !== undefined).toBe(true);
      if (hasSchema) expect(result.structuredContent).toEqual(own(value));
      expect(isSpecType.GetPromptResult(promptResult(own(value), 'about'))).toBe(true);
      expect(isSpecType.ReadResourceResult(resourceResult(own(value), 'a://b', undefined))).toBe(
        true,
      );
    }),
  );
});

test('a text that is too long is a beginning and a link, which only its client reads', () => {
  const project = {};
  const mine = createAnswers(project, 'mine', 500);
  expect(mine.shorten('x'.repeat(500), 'text/plain')).toBeUndefined();
  const brief = mine.shorten('x'.repeat(501), 'text/plain');
  const [link] = brief?.blocks ?? [];
  const id = link?.type === 'resource_link' ? link.uri.replace('result://', '') : '';
  expect(id).toMatch(/^[\w-]{32}$/);
  expect(mine.read(id)?.text).toHaveLength(501);
  expect(createAnswers(project, 'other').read(id)).toBeUndefined();
  expect(createAnswers({}, 'mine').read(id)).toBeUndefined();
  // The store is bounded: the oldest texts are dropped, and a much too long text is not stored.
  for (let n = 0; n < 200; n++) mine.shorten(`${n}${'y'.repeat(600)}`, 'text/plain');
  expect(mine.read(id)).toBeUndefined();
  expect(mine.shorten('z'.repeat(9 * 1024 * 1024), 'text/plain')?.blocks).toEqual([]);
});
