// One turn with one tool call, counted: which files and functions of `src` it enters, and how often
// the pipeline. The model is the scripted provider in a worker, so that none of its work is counted;
// it waits before each answer, so that a turn has two clear ends.
import { once } from 'node:events';
import { Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { type ScriptedReply, startScriptedProvider } from '@kernmantle/core/llm';
import { openStage } from '../../bench/thread-stage.ts';

export interface TurnCount {
  readonly files: readonly string[];
  /** `path name`, each function once. */
  readonly functions: readonly string[];
  readonly performs: number;
}

const TURNS = 4;
/** The turn that is counted ends with this request and began with the one before. */
const COUNTED_TO = 3;
const SETTLE_MS = 50;

const usage = { input_tokens: 500, output_tokens: 20 };
const readNote = (note: number): ScriptedReply => {
  const parameters = { path: `notes/${note}.txt` };
  const read = { item_type: 'tool', item_id: 'fs/read_file', parameters };
  return { tool_calls: [{ name: 'execute', arguments: read }], usage };
};

/** Inside the worker: says each request, and answers when it is told to. */
async function playModel(port: NonNullable<typeof parentPort>): Promise<void> {
  const provider = await startScriptedProvider(async ({ assistant_messages }) => {
    port.postMessage('asked');
    await once(port, 'message');
    const done = assistant_messages - 1; // the harness writes the first one
    return done < TURNS ? readNote(done) : { text: 'done', usage };
  });
  if (!provider.ok) throw new Error(provider.error.detail.message);
  port.postMessage(provider.output.url);
}

const inSource = (url: string): string | undefined =>
  /\/packages\/(.*\.ts)$/.exec(url)?.[1]?.replace('/src/', '/');

export async function countTurn(): Promise<TurnCount> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  const worker = new Worker(new URL(import.meta.url));
  const stage = await openStage(['count'], {
    async provider() {
      const [url] = (await once(worker, 'message')) as [string];
      return { url, stop: () => worker.terminate() };
    },
  });
  try {
    let asked = 0;
    let counted: TurnCount | undefined;
    const onAsked = async (): Promise<void> => {
      asked += 1;
      await sleep(SETTLE_MS);
      // Taking sets every count back to zero.
      const { result } = await session.post('Profiler.takePreciseCoverage');
      if (asked === COUNTED_TO) counted = summarise(result);
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- no window
      worker.postMessage('answer');
    };
    worker.on('message', () => void onAsked());
    // The first run loads what is loaded on demand.
    for (let run = 0; run < 2; run++) {
      asked = 0;
      await stage.run('count');
    }
    if (!counted) throw new Error(`the run ended before request ${COUNTED_TO}`);
    return counted;
  } finally {
    await stage.close();
    session.disconnect();
  }
}

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    functionName: string;
    ranges: readonly { count: number; startOffset: number }[];
  }[];
}

function summarise(scripts: readonly ScriptCoverage[]): TurnCount {
  const files = new Set<string>();
  const functions: string[] = [];
  let performs = 0;
  for (const { url, functions: found } of scripts) {
    const path = inSource(url);
    if (path === undefined) continue;
    for (const { functionName, ranges } of found) {
      const [range] = ranges;
      if (!range || range.count === 0) continue;
      files.add(path);
      functions.push(`${path} ${functionName || `(at ${range.startOffset})`}`);
      // `perform` waits, and an asynchronous function is counted again whenever it goes on: its
      // attempts are begun by a plain one, once each where nothing is tried again.
      if (functionName === 'startAttempt' && path.startsWith('core/flow/')) performs += range.count;
    }
  }
  return { files: [...files].sort(), functions: functions.sort(), performs };
}

if (!isMainThread && parentPort) await playModel(parentPort);
