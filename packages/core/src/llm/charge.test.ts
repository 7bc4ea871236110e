// Whatever a provider reports within the cap and the estimate of a request, its charge is at most the reservation.
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createEventParser } from '../kernel/http/event-parser.ts';
import type { Protocol } from './message.ts';
import { costOf, type Price, worstCost } from './prices/prices.ts';
import { createReader } from './reader.ts';
import { answerOf } from './scripted/answer.ts';
import { describeRequest } from './scripted/request.ts';
import { wireOf } from './scripted/wire.ts';

const rate = fc.bigInt({ min: 0n, max: 100_000_000n });
const price: fc.Arbitrary<Price> = fc.record({
  row: fc.constant('test'),
  model: fc.constant('m'),
  free: fc.constant(false),
  currency: fc.constant('USD'),
  input: rate,
  output: rate,
  cache_read: rate,
  cache_write: rate,
});

/** Chat Completions reports usage only on request. */
const BODY = { stream: true, stream_options: { include_usage: true } };

test('a charge is never above the reservation if the report respects the cap', () => {
  const protocol = fc.constantFrom<Protocol>('anthropic', 'openai', 'responses', 'gemini');
  const count = fc.integer({ min: 1, max: 300_000 });
  const shares = fc.tuple(fc.nat(100), fc.nat(100));
  fc.assert(
    fc.property(
      protocol,
      price,
      count,
      count,
      shares,
      (kind, prices, input, cap, [read, written]) => {
        const cache_read_tokens = Math.floor((input * read) / 100);
        const cache_write_tokens = Math.floor(((input - cache_read_tokens) * written) / 100);
        const usage = {
          input_tokens: input - cache_read_tokens - cache_write_tokens,
          output_tokens: cap,
          cache_read_tokens,
          cache_write_tokens,
        };
        const request = describeRequest(1, kind, {}, BODY, 0);
        const wire = wireOf(answerOf({ text: 'x', usage }, request), request);
        const reader = createReader(kind);
        const parser = createEventParser((event) => void reader.push(event));
        parser.push(Buffer.concat(wire.pieces));
        const reply = reader.end(!parser.end().unfinished);
        if (!reply.ok) throw new Error(reply.error.detail.message);
        expect(reply.output.usage).toMatchObject({ context_tokens: input, output_tokens: cap });
        const charge = costOf(reply.output.usage, prices);
        expect(charge <= worstCost(input, cap, prices)).toBe(true);
      },
    ),
    { numRuns: runs(1000) },
  );
});
