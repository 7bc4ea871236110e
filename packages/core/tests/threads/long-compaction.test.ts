// A thread of 2,000 turns (120 in the short form) in a window of 32,000 tokens, whose provider refuses larger requests.
// `KERNMANTLE_FIGURES=1` prints the passes, the memory and the CPU time that the thread needed.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { probeTools } from '@kernmantle/test-support/crash-project';
import { isLate } from '@kernmantle/test-support/late-store';
import { isSoak, runs } from '@kernmantle/test-support/soak';
import { call, directive, run, stage } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { estimateTokens, type ScriptedRequest } from '../../src/llm/index.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const TURNS = runs(120, 2000);
/** Turns whose memory and CPU time are compared. CPU time is that of a hundred turns around them. */
const EARLY = { heap: TURNS / 10, cpu: TURNS / 20 };
const LATE = { heap: TURNS, cpu: TURNS - TURNS / 20 };
const WINDOW = 32_000;
const LIMITS = `<turns>3000</turns><tool_calls>3000</tool_calls><tokens>900000000</tokens><spend>1000</spend><context compact="auto">${WINDOW}</context>`;
const TOOLS = probeTools((_, at) => ({ at, text: 'word '.repeat(400) }));

const TOO_LARGE = { type: 'invalid_request_error', message: 'prompt is too long' };
const isSummary = ({ body }: ScriptedRequest): boolean =>
  JSON.stringify(body).includes('The turns to summarise');

test.skipIf(isLate)(`${TURNS} turns in a small window`, async () => {
  const seen: { cpu: number; heap?: number }[] = [];
  let refused = 0;
  const made = await stage(
    directive('lead', {
      permissions: '<execute resource="tool" id="probe/*"/>',
      limits: LIMITS,
    }),
    (request) => {
      if (estimateTokens(request.bytes) > WINDOW) {
        refused += 1;
        return { fault: { status: 400, error: TOO_LARGE } };
      }
      if (isSummary(request)) return { text: 'Done: some reads\nNext: read on' };
      const turn = seen.length + 1;
      const { user, system } = process.cpuUsage();
      const isMeasured = turn === EARLY.heap || turn === LATE.heap;
      if (isMeasured) {
        // The provider keeps its requests, and they are no part of the thread.
        (made.provider.requests as ScriptedRequest[]).splice(0);
        collect();
      }
      seen.push({
        cpu: (user + system) / 1000,
        ...(isMeasured && { heap: process.memoryUsage().heapUsed / 1024 / 1024 }),
      });
      return turn > TURNS
        ? { text: 'all done' }
        : { tool_calls: [call('probe/look', { at: String(turn) })] };
    },
    { tools: TOOLS },
  );
  const { thread_id: id, ...result } = await run(made, 'lead');
  expect(refused).toBe(0);
  expect(result).toMatchObject({ status: 'completed', text: 'all done' });

  const passes = await made.threads.store.read(id, { types: ['compaction'], limit: 2000 });
  if (!passes.ok) throw new Error(passes.error.detail.message);
  const turns = passes.output.map(({ turn }) => turn);
  const gaps = turns.slice(1).map((turn, at) => turn - (turns[at] ?? 0));
  expect(turns.length).toBeGreaterThan(2);
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(8);
  const shares = passes.output
    .filter(({ data }) => data.tier === 'summary')
    .map(({ data }) => Number(data.after) / Number(data.before));
  expect(shares.length).toBeGreaterThan(0);
  expect(Math.max(...shares)).toBeLessThanOrEqual(0.6);

  const half = TURNS / 40;
  const cpuAround = (turn: number): number =>
    ((seen[turn + half]?.cpu ?? 0) - (seen[turn - half]?.cpu ?? 0)) / (2 * half);
  const cpu = cpuAround(LATE.cpu) / cpuAround(EARLY.cpu);
  const heap = (seen[LATE.heap - 1]?.heap ?? 0) - (seen[EARLY.heap - 1]?.heap ?? 0);
  if (process.env.KERNMANTLE_FIGURES)
    process.stderr.write(
      `${TURNS} turns: ${turns.length} passes, least gap ${Math.min(...gaps)}, largest share ${Math.max(...shares).toFixed(2)}, heap +${heap.toFixed(1)} MB, CPU ${cpuAround(EARLY.cpu).toFixed(1)} -> ${cpuAround(LATE.cpu).toFixed(1)} ms a turn, ${cpu.toFixed(2)}x\n`,
    );
  expect(heap).toBeLessThanOrEqual(16);
  // A short run is still warming up.
  if (isSoak) expect(cpu).toBeLessThanOrEqual(1.3);
});
