// Implements the primitive `subprocess`, which is the last link of every chain that starts a program.
import { basename, join } from 'node:path';
import {
  type Failure,
  fail,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
  pathWithin,
  plainJson,
  systemRandom,
} from '../../base/index.ts';
import {
  markNotStarted,
  type Primitive,
  type PrimitiveCall,
  type PrimitiveResult,
} from '../primitive.ts';
import { longOutputName } from '../rights/closed-places.ts';
import { decideSandbox, needsNetwork } from '../sandbox/decide.ts';
import { type ProcessConfig, readProcessConfig } from './config.ts';
import { prepareDependencies } from './dependencies.ts';
import type { ProcessPorts } from './environment.ts';
import { allowStart, type PreparedLaunch, prepareLaunch } from './launch.ts';
import { readOutcome } from './module.ts';
import { truncationMark } from './output.ts';
import { type Ended, runProcess } from './run.ts';

const MAX_OUTCOME = 16 * 1024 * 1024;

const SOURCE_LABELS = {
  command: 'src:cmd',
  shell: 'src:sh',
  node: 'src:node',
  python: 'src:py',
} as const;

/** Returns the program's name for messages and sources: relative to the project, or without its folder. */
const shownProgram = ({ argv: [program = ''] }: PreparedLaunch, projectRoot: string): string => {
  const inProject = pathWithin(projectRoot, program);
  return inProject === program ? basename(program) : inProject;
};

/** Returns the facts about the end of a process for its caller, on success and on failure. */
function factsOf(ended: Ended, prepared: PreparedLaunch, projectRoot: string): JsonObject {
  const truncated = {
    ...truncationMark('stdout', ended.stdout, projectRoot),
    ...truncationMark('stderr', ended.stderr, projectRoot),
  };
  return {
    exit_code: ended.reason === 'signal' ? null : ended.exitCode,
    signal: ended.signal,
    stdout: ended.stdout.text,
    stderr: ended.stderr.text,
    truncated: Object.keys(truncated).length > 0 ? truncated : false,
    duration_ms: ended.durationMs,
    sandbox: prepared.mode,
    network: prepared.network,
    ...(ended.quarantine.paths.length > 0
      ? { set_aside: ended.quarantine.paths, set_aside_in: ended.quarantine.folder }
      : {}),
  };
}

const lastLine = (text: string): string => text.trim().split('\n').at(-1)?.slice(0, 300) ?? '';

/**
 * Returns the fault of a sandbox that could not be set up. The program did not run, so stderr contains
 * the messages of the set-up.
 */
function setupFailure(ended: Ended, prepared: PreparedLaunch): Failure {
  const setupText = lastLine(ended.stderr.text).replace(/^(?:bwrap|sandbox): /, '');
  return markNotStarted(
    setupText.startsWith('execvp')
      ? fail(
          'dependency_missing',
          `program \`${basename(prepared.argv[0] ?? '')}\` cannot be started inside the sandbox: ${setupText}`,
        )
      : fail('sandbox_missing', `the sandbox cannot be set up: ${setupText}`),
  );
}

/** Returns the fault of every end except a successful exit. */
function failureOf(
  ended: Ended,
  call: PrimitiveCall,
  prepared: PreparedLaunch,
  config: ProcessConfig,
): Outcome<never> | undefined {
  const facts = factsOf(ended, prepared, call.projectRoot);
  const program = shownProgram(prepared, call.projectRoot);
  switch (ended.reason) {
    case 'timeout':
      return fail('timeout', `\`${program}\` was stopped after ${call.timeoutMs} ms`, {
        ...facts,
        timeout_ms: call.timeoutMs,
      });
    case 'cancelled':
      return fail('cancelled', `\`${program}\` was stopped by its caller`, facts);
    case 'overrun':
      return fail(
        'tool_failed',
        ended.overrun === 'memory'
          ? `\`${program}\` was stopped: its processes used more than ${config.bounds.memoryMb} MB of memory (\`config.max_memory_mb\`)`
          : `\`${program}\` was stopped: it had more than ${config.bounds.processes} processes at a time (\`config.max_processes\`)`,
        facts,
      );
    case 'not_started':
      return markNotStarted(
        ended.errno === 'ENOENT' || ended.errno === 'EACCES'
          ? fail('dependency_missing', `program \`${program}\` cannot be started: ${ended.errno}`)
          : fail(
              'config_invalid',
              `\`${program}\` cannot be started: ${ended.errno ?? 'unknown error'}`,
            ),
      );
    case 'signal':
      if (config.okExitCodes.has(ended.exitCode ?? Number.NaN)) return undefined;
      return fail('tool_failed', `\`${program}\` was ended by ${ended.signal}`, facts);
    case 'exit': {
      if (!ended.hasBegun) return setupFailure(ended, prepared);
      if (config.okExitCodes.has(ended.exitCode ?? Number.NaN)) return undefined;
      const last = lastLine(ended.stderr.text);
      const suffix = last === '' ? '' : `: ${last}`;
      return fail(
        'tool_failed',
        `\`${program}\` exited with code ${ended.exitCode}${suffix}`,
        facts,
      );
    }
  }
}

function outputOf(ended: Ended, facts: JsonObject, config: ProcessConfig): Outcome<Json> {
  if (config.output === 'text') return ok(facts);
  if (ended.stdout.truncated) {
    return fail(
      'tool_failed',
      `the program wrote more than ${config.maxOutput} bytes where one JSON value was expected`,
      facts,
    );
  }
  const parsed = parseJson(ended.stdout.text);
  return parsed.ok
    ? parsed
    : fail(
        'tool_failed',
        `the program did not write one JSON value: ${parsed.error.detail.message}`,
        facts,
      );
}

/** Sends the lines of a process to its sinks after its end. The sinks are always closed. */
async function deliver(call: PrimitiveCall, text: string): Promise<JsonObject> {
  if (call.sinks.length === 0) return {};
  const lines = text === '' ? [] : text.replace(/\n$/, '').split('\n');
  const events = lines.map((data) => ({ event: 'stdout', data }));
  for (const sink of call.sinks) await sink.write(events);
  const reports = await Promise.all(call.sinks.map((sink) => sink.close()));
  return {
    stream_events_count: lines.length,
    stream_destinations: plainJson(reports),
  };
}

export function createProcessPrimitive(ports: ProcessPorts): Primitive {
  async function runCall(
    call: PrimitiveCall,
    config: ProcessConfig,
  ): Promise<Outcome<{ prepared: PreparedLaunch; ended: Ended }>> {
    const { program, dependencies } = config;
    if (program.kind === 'module') {
      const tool = { id: call.tool.id, runtime: program.runtime, dependencies };
      const installed = await prepareDependencies(tool, call.projectRoot, ports, call.signal);
      if (!installed.ok) return installed;
    }
    if (call.signal.aborted) {
      return markNotStarted(
        fail('cancelled', `tool \`${call.tool.id}\` was stopped before it started`),
      );
    }
    const prepared = prepareLaunch(call, config, ports);
    if (!prepared.ok) return markNotStarted(prepared);
    const secrets = [...call.secrets, ...call.tool.env.flatMap((name) => ports.env[name] ?? [])];
    const { parameters } = call;
    const name = Buffer.from(systemRandom(8)).toString('hex');
    const keep = (stream: string) => ({
      maxBytes: config.maxOutput,
      secrets,
      file: () => join(ports.outputDir(), longOutputName(name, call.from?.__thread_id, stream)),
    });
    const ended = await runProcess(prepared.output.launch, {
      stdin:
        program.kind === 'module'
          ? JSON.stringify({ parameters, config: call.config, names: call.tool.parameters ?? [] })
          : config.stdin,
      timeoutMs: call.timeoutMs,
      graceMs: config.graceMs,
      signal: call.signal,
      clock: ports.clock,
      stdout: { ...keep('stdout'), onText: call.onOutput },
      stderr: keep('stderr'),
      channel: { maxBytes: MAX_OUTCOME, secrets },
    });
    return ok({ prepared: prepared.output, ended });
  }

  return {
    name: 'subprocess',
    async run(call): Promise<Outcome<PrimitiveResult>> {
      const config = readProcessConfig(call.config, call.parameters);
      const ran = config.ok ? await runCall(call, config.output) : config;
      const streamed = await deliver(call, ran.ok ? ran.output.ended.stdout.text : '');
      if (!config.ok) return markNotStarted(config);
      if (!ran.ok) return ran;
      const { program } = config.output;
      const { prepared, ended } = ran.output;
      const facts = factsOf(ended, prepared, call.projectRoot);
      const failure = failureOf(ended, call, prepared, config.output);
      const judged =
        program.kind === 'module'
          ? readOutcome(ended, facts, failure)
          : (failure ?? outputOf(ended, facts, config.output));
      if (!judged.ok) return judged;
      const label = SOURCE_LABELS[program.kind === 'module' ? program.runtime : program.kind];
      const output = isObject(judged.output) ? { ...judged.output, ...streamed } : judged.output;
      const fromNetwork = needsNetwork(call.tool, prepared.mode)
        ? ['src:network', 'untrusted']
        : [];
      return ok({
        output,
        labels: [label, ...fromNetwork],
        sources: [`command:${shownProgram(prepared, call.projectRoot)}`],
      });
    },
    refuses(call) {
      const config = readProcessConfig(call.config, call.parameters);
      const allowed = config.ok ? allowStart(call, config.output, ports) : config;
      return allowed.ok || allowed.error.code !== 'permission_denied' ? undefined : allowed;
    },
    plan(call): Json {
      const config = readProcessConfig(call.config, call.parameters);
      if (!config.ok) return { problem: config.error.detail.message };
      const { program, cwd } = config.output;
      const mode = decideSandbox(call.tool, ports);
      return {
        primitive: 'subprocess',
        program: plainJson(program),
        cwd,
        sandbox: mode.ok ? mode.output : `refused: ${mode.error.detail.message}`,
        network: mode.ok && needsNetwork(call.tool, mode.output),
      };
    },
  };
}
