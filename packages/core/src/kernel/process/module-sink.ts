// Creates a project's own sink: a module in a sandboxed child, which gets events as JSON lines on stdin and
// confirms each one. A full pipe makes the stream wait. If the child has ended, events count as dropped.
// A failure here never stops the stream for other sinks.
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { fail, type JsonObject, type Outcome, ok, withoutFolder } from '../../base/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import type { Sink, SinkContext, SinkFactory, SinkReport } from '../sink.ts';
import { readProcessConfig } from './config.ts';
import type { ProcessPorts } from './environment.ts';
import { prepareLaunch } from './launch.ts';
import { capture } from './output.ts';
import { killTree, type Launch, type StartedProcess, start, stop } from './run.ts';

/**
 * INVARIANT: this time with the grace time is always shorter than the stream's wait for its sinks, so no
 * child outlives its call.
 */
const CLOSE_MS = 5000;
const MAX_LOG = 16 * 1024;
const MAX_LOG_END = 2000;

/** Ends the input and waits. A child that does not end by itself is killed. */
async function finish(
  { child, exit, overrun }: StartedProcess,
  launch: Launch,
): Promise<{ code: number | null; forced: boolean }> {
  let [forced, callOff] = [false, () => undefined as void];
  const timer = setTimeout(() => {
    forced = true;
    callOff = stop(child, launch.isSandboxed, 1000);
  }, CLOSE_MS);
  child.stdin?.end();
  const { exitCode } = await exit;
  clearTimeout(timer);
  callOff();
  if (child.pid !== undefined) killTree(child.pid);
  overrun();
  return { code: exitCode, forced };
}

function createSink(
  type: string,
  started: StartedProcess,
  launch: Launch,
  config: JsonObject,
  { signal, projectRoot }: Pick<SinkContext, 'signal' | 'projectRoot'>,
): Sink {
  const { child, channel, exit } = started;
  let [written, refused, delivered, isGone] = [0, 0, 0, false];
  // One `+` for each handled event, one `-` for each that failed.
  channel.on('data', (chunk: Buffer) => {
    for (const byte of chunk) if (byte === 0x2b) delivered++;
  });
  const closed = once(channel, 'close');
  const log = capture(child.stderr as Readable, { maxBytes: MAX_LOG, secrets: [] });
  child.stdout?.resume();
  const exited = exit.then(() => {
    isGone = true;
  });
  const onAbort = () => {
    stop(child, launch.isSandboxed, 1000);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  const stdin = child.stdin as Writable;
  stdin.write(`${JSON.stringify({ config })}\n`);

  return {
    type,
    async write(events) {
      for (const event of events) {
        if (isGone || !stdin.writable) {
          refused++;
          continue;
        }
        written++;
        // The child may end while its pipe is full. `drain` would then never come.
        if (!stdin.write(`${JSON.stringify(event)}\n`)) {
          await Promise.race([once(stdin, 'drain').catch(() => undefined), exited]);
        }
      }
    },
    async close(): Promise<SinkReport> {
      const { code, forced } = await finish(started, launch);
      signal.removeEventListener('abort', onAbort);
      for (const stream of child.stdio) if (stream !== channel) stream?.destroy();
      await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 1000).unref())]);
      channel.destroy();
      const [moved] = launch.cleanUp?.()?.paths ?? [];
      const dropped = written - delivered + refused;
      const logText = withoutFolder((await log).text.trim().slice(-MAX_LOG_END), projectRoot);
      const why = forced ? 'did not end in time' : code === 0 ? '' : `ended with code ${code}`;
      const remark =
        moved === undefined ? '' : `created \`${moved}\`, which was moved out of the project`;
      const problem = why || (dropped > 0 ? 'lost events' : remark);
      return {
        type,
        delivered,
        dropped,
        ...(problem === '' ? {} : { error: `the sink ${problem}` }),
        ...(logText === '' ? {} : { log: logText }),
      };
    },
  };
}

/** Creates sinks from a tool's module. `tool` belongs to the sink, not to the stream. */
export function createProcessSink(ports: ProcessPorts, tool: PrimitiveCall['tool']): SinkFactory {
  return (destination: JsonObject, context: SinkContext): Outcome<Sink> => {
    const config = readProcessConfig(destination, {});
    if (!config.ok) return config;
    if (config.output.program.kind !== 'module') {
      return fail(
        'config_invalid',
        `sink \`${tool.id}\` must name a \`module\` and end in \`runtime/node\` or \`runtime/python\``,
      );
    }
    const { projectRoot, verify } = context;
    const prepared = prepareLaunch({ tool, verify, projectRoot }, config.output, ports, {
      isSink: true,
    });
    if (!prepared.ok) return prepared;
    const { launch } = prepared.output;
    const started = start(launch);
    if (!started.ok) {
      const { message } = started.error.detail;
      return fail('config_invalid', `sink \`${tool.id}\` cannot be started: ${message}`);
    }
    return ok(createSink(tool.id, started.output, launch, destination, context));
  };
}
