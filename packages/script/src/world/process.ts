// Commands and shell blocks: one start of the kernel's process primitive for each, however many lines
// it has. Rights, sandbox, caps and clean-up are the primitive's.
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import {
  createRedactor,
  type Failure,
  type Fault,
  fail,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '@kernmantle/core/base';
import {
  type Descriptor,
  type Frame,
  markFailure,
  mergeAll,
  namedFolders,
} from '@kernmantle/core/flow';
import {
  type PrimitiveCall,
  underPolicies,
  type Verifier,
  verifierOf,
  watchProcess,
} from '@kernmantle/core/kernel';
import type { ProcessRequest, ProcessResult } from '../world.ts';
import type { WorldPorts } from './access.ts';

const DEFAULT_TIMEOUT_MS = 120_000;
const MAX_OUTPUT = 16 * 1024 * 1024;
/** What the system takes as one argument or variable, less what is put around it. */
const MAX_WORD = 120_000;

const ASKS_NETWORK =
  /\b(?:curl|wget|ping|ssh|scp|rsync|telnet|nc|dig|nslookup)\b|\bgit\s+(?:clone|fetch|pull|push|ls-remote)\b|\b(?:npm|pnpm|yarn|pip3?|apt(?:-get)?|brew|cargo|gem)\s+(?:i|install|add|update|publish)\b/;
const NO_NETWORK =
  /could not resolve|couldn't resolve|name resolution|name or service not known|network is unreachable|getaddrinfo|EAI_AGAIN|ENETUNREACH|ENOTFOUND|fetch failed/i;

/** For what failed and seems to have asked the network: processes of a script have none. */
export const networkHint = (source: string, said: string): { hint?: string } =>
  ASKS_NETWORK.test(source) || NO_NETWORK.test(said)
    ? {
        hint: 'commands and code blocks have no network; ask with `@tool("http/get", { url: "…" })`',
      }
    : {};

/** What a process is told to do, in the words of the primitive's config. */
interface Start {
  readonly config: JsonObject;
  readonly request: Pick<ProcessRequest, 'env' | 'stdin' | 'folder' | 'timeoutMs' | 'onOutput'>;
  /** For the audit. */
  readonly operation: string;
  /** The operation it is for: its inputs and conditions went in. */
  readonly frame: Frame;
}

/** Values that were handed over as variables do not come back in a message. */
function redact(fault: Fault, env: Readonly<Record<string, string>>): Failure {
  const shown = createRedactor(Object.values(env));
  const detail = Object.entries(fault.detail).map(([key, value]) => [key, shown.json(value)]);
  return fail(fault.code, shown.text(fault.detail.message), Object.fromEntries(detail));
}

/** Names of a script may hold `-`, those of variables may not. */
const variableName = (name: string): string => name.replace(/\W|^(?=\d)/g, '_');

const variables = (env: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(env).map(([name, value]) => [variableName(name), value]));

/** What a shell, a loader or an interpreter goes by. */
const NEEDED =
  /^(?:PATH|HOME|IFS|PWD|OLDPWD|CDPATH|SHELL|SHELLOPTS|BASHOPTS|ENV|PS[0-4]|PROMPT_COMMAND|GLOBIGNORE|POSIXLY_CORRECT|TMPDIR|TEMP|TMP|USER|LOGNAME|LANG|LANGUAGE|TERM|TZ|GCONV_PATH|LOCPATH|NLSPATH|HOSTALIASES|CLASSPATH|_JAVA_OPTIONS|(?:LD|DYLD|LC|BASH|NODE|NPM|npm|GIT|SSH|JAVA|MALLOC|GLIBC|KERNMANTLE)_\w*|(?:PYTHON|PERL|RUBY|JDK)\w*|_)$/;
/** Of all of them together: they share the room with the command itself. */
const MAX_VARIABLES = 500_000;

/**
 * Parameters that come to a command by themselves, as far as it can have them: none takes the place of
 * what the process needs, and what is too large for an environment stays out of it.
 */
export function commandVariables(env: Readonly<Record<string, string>>): Record<string, string> {
  let room = MAX_VARIABLES;
  const fits = ([name, value]: [string, string]): boolean => {
    const size = Buffer.byteLength(value);
    const isTaken = NEEDED.test(variableName(name)) || value.includes('\0');
    if (isTaken || size > Math.min(MAX_WORD, room)) return false;
    room -= size;
    return true;
  };
  return Object.fromEntries(Object.entries(env).filter(fits));
}

function tooLong({ config, request }: Start): Failure | undefined {
  const words = [
    ['the text of the command', plainText(config['script'])] as const,
    ...Object.entries(request.env).map(([name, value]) => [`\`$${name}\``, value] as const),
  ];
  const [name] = words.find(([, text]) => Buffer.byteLength(text) > MAX_WORD) ?? [];
  if (name === undefined) return undefined;
  return fail(
    'invalid_input',
    `${name} has more than ${MAX_WORD} bytes, which the system does not hand to a process; pass it with \`stdin\` or in a file`,
  );
}

/** The primitive's answer: also that of a failed command is a result here. */
function finished(facts: JsonObject, descriptor: Descriptor): Outcome<ProcessResult> {
  const { stdout, stderr, exit_code, signal, truncated } = facts;
  if (truncated !== false && truncated !== undefined) {
    const message = `the command wrote more than ${MAX_OUTPUT} bytes; let it write to a file`;
    return fail('response_too_large', message, { truncated });
  }
  return ok({
    stdout: plainText(stdout),
    stderr: plainText(stderr),
    code: typeof exit_code === 'number' ? exit_code : 1,
    signal: typeof signal === 'string' ? signal : undefined,
    descriptor,
  });
}

export function createProcesses(ports: WorldPorts) {
  function callOf({ config, request }: Start, verify: Verifier): PrimitiveCall {
    const { env, stdin = '', folder, timeoutMs = DEFAULT_TIMEOUT_MS, onOutput } = request;
    return {
      tool: {
        id: 'script',
        dir: ports.root,
        source: 'bundle',
        requires: ['process.spawn'],
        effect: 'write',
        sandbox: 'workspace',
        env: [],
      },
      config: { ...config, cwd: folder, env: variables(env), stdin, max_output: MAX_OUTPUT },
      parameters: {},
      sinks: [],
      verify,
      signal: ports.signal,
      projectRoot: ports.root,
      timeoutMs,
      secrets: [],
      ...(onOutput && { onOutput }),
    };
  }

  async function start(what: Start): Promise<Outcome<ProcessResult>> {
    const long = tooLong(what);
    if (long) return long;
    const authority = ports.authority();
    if (!authority.ok) return authority;
    const { frame } = what;
    const own = underPolicies(authority.output, frame.guards, true);
    const call = callOf(what, verifierOf(own));
    const box = await watchProcess({
      records: ports.labels,
      verify: call.verify,
      named: namedFolders(frame),
      isOpen: frame.policy.sandbox === 'none',
      mayWrite: true,
      given: mergeAll([frame.influence, ...frame.inputs.map(({ value }) => value.meta.descriptor)]),
    });
    if (!box.ok) return box;
    const ran = await ports.subprocess().run(call);
    const { marks } = box.output;
    const ended = box.output.ended();
    const { shared } = ports.labels;
    const noted = ended.ok && shared ? await shared.keep() : ended;
    if (!noted.ok) return noted;
    const isEnded = !ran.ok && ran.error.code === 'tool_failed' && 'exit_code' in ran.error.detail;
    const failure = ran.ok || isEnded ? undefined : ran;
    const kept = ports.audit(what.operation, failure);
    if (failure) return markFailure(redact(failure.error, what.request.env), marks);
    if (!kept.ok) return kept;
    return finished((ran.ok ? ran.output.output : ran.error.detail) as JsonObject, marks);
  }

  let shell: string | undefined;
  /** The `echo` of some `sh` rewrites backslashes, so `bash` where there is one. */
  function shellName(): string {
    shell ??= (ports.env['PATH'] ?? '/usr/bin:/bin').split(delimiter).some(hasBash) ? 'bash' : 'sh';
    return shell;
  }

  return {
    start,
    process(request: ProcessRequest, frame: Frame): Promise<Outcome<ProcessResult>> {
      const { source } = request;
      const script = typeof source === 'string' ? source : inTurn(source);
      const config = { shell: shellName(), script };
      return start({ config, request, operation: operationOf(request), frame });
    },
  };
}

export type Processes = ReturnType<typeof createProcesses>;

function hasBash(folder: string): boolean {
  try {
    accessSync(join(folder, 'bash'), constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Without the values in it: some may be secret. */
function operationOf({ kind, source }: ProcessRequest): string {
  const first = typeof source === 'string' ? '' : (source[0]?.trim().split(/\s/, 1)[0] ?? '');
  return first === '' ? `run:${kind}` : `run:${kind}:${first}`;
}

/** The first line that fails ends it with its own status. */
const inTurn = (lines: readonly string[]): string =>
  lines.length === 1 ? lines.join('') : `set -e\n${lines.join('\n')}`;
