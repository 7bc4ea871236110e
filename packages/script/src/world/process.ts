// Runs commands and shell blocks. Each is one start of the kernel's process primitive, which checks rights,
// sandbox and limits and cleans up.
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
/** Maximum length of one argument or variable in the operating system, with a reserve. */
const MAX_WORD = 120_000;

const ASKS_NETWORK =
  /\b(?:curl|wget|ping|ssh|scp|rsync|telnet|nc|dig|nslookup)\b|\bgit\s+(?:clone|fetch|pull|push|ls-remote)\b|\b(?:npm|pnpm|yarn|pip3?|apt(?:-get)?|brew|cargo|gem)\s+(?:i|install|add|update|publish)\b/;
const NO_NETWORK =
  /could not resolve|couldn't resolve|name resolution|name or service not known|network is unreachable|getaddrinfo|EAI_AGAIN|ENETUNREACH|ENOTFOUND|fetch failed/i;

/** Returns a hint for a failure that looks like a network access, because processes of a script have no network. */
export const networkHint = (source: string, output: string): { hint?: string } =>
  ASKS_NETWORK.test(source) || NO_NETWORK.test(output)
    ? {
        hint: 'commands and code blocks have no network; use `@tool("http/get", { url: "…" })`',
      }
    : {};

/** A request to start one process. `config` is the config of the process primitive. */
interface Start {
  readonly config: JsonObject;
  readonly request: Pick<ProcessRequest, 'env' | 'stdin' | 'folder' | 'timeoutMs' | 'onOutput'>;
  readonly operation: string;
  /** Frame of the operation. Its inputs and conditions mark the result. */
  readonly frame: Frame;
}

/** Removes the values of variables from a message, because they may be secret. */
function redact(fault: Fault, env: Readonly<Record<string, string>>): Failure {
  const redactor = createRedactor(Object.values(env));
  const detail = Object.entries(fault.detail).map(([key, value]) => [key, redactor.json(value)]);
  return fail(fault.code, redactor.text(fault.detail.message), Object.fromEntries(detail));
}

/** A name in a script may contain `-`, but the name of a variable may not. */
const variableName = (name: string): string => name.replace(/\W|^(?=\d)/g, '_');

const variables = (env: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(env).map(([name, value]) => [variableName(name), value]));

/** Variables that control a shell, a loader or an interpreter. */
const NEEDED =
  /^(?:PATH|HOME|IFS|PWD|OLDPWD|CDPATH|SHELL|SHELLOPTS|BASHOPTS|ENV|PS[0-4]|PROMPT_COMMAND|GLOBIGNORE|POSIXLY_CORRECT|TMPDIR|TEMP|TMP|USER|LOGNAME|LANG|LANGUAGE|TERM|TZ|GCONV_PATH|LOCPATH|NLSPATH|HOSTALIASES|CLASSPATH|_JAVA_OPTIONS|(?:LD|DYLD|LC|BASH|NODE|NPM|npm|GIT|SSH|JAVA|MALLOC|GLIBC|KERNMANTLE)_\w*|(?:PYTHON|PERL|RUBY|JDK)\w*|_)$/;
/** Maximum total length of the variables, which share their space with the command. */
const MAX_VARIABLES = 500_000;

/** Returns the parameters that become variables of a command. It drops reserved names and values that are too long. */
export function commandVariables(env: Readonly<Record<string, string>>): Record<string, string> {
  let rest = MAX_VARIABLES;
  const fits = ([name, value]: [string, string]): boolean => {
    const size = Buffer.byteLength(value);
    const isTaken = NEEDED.test(variableName(name)) || value.includes('\0');
    if (isTaken || size > Math.min(MAX_WORD, rest)) return false;
    rest -= size;
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
    `${name} has more than ${MAX_WORD} bytes, which is too long for a process; pass it with \`stdin\` or in a file`,
  );
}

/** Returns the result of a process. A failed command is a result too. */
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
    const recorded = ended.ok && shared ? await shared.keep() : ended;
    if (!recorded.ok) return recorded;
    const isEnded = !ran.ok && ran.error.code === 'tool_failed' && 'exit_code' in ran.error.detail;
    const failure = ran.ok || isEnded ? undefined : ran;
    const stored = ports.audit(what.operation, failure);
    if (failure) return markFailure(redact(failure.error, what.request.env), marks);
    if (!stored.ok) return stored;
    return finished((ran.ok ? ran.output.output : ran.error.detail) as JsonObject, marks);
  }

  let shell: string | undefined;
  /** Uses `bash` if it is installed, because the `echo` of some `sh` rewrites backslashes. */
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

/** Returns the name of the operation without values, which may be secret. */
function operationOf({ kind, source }: ProcessRequest): string {
  const first = typeof source === 'string' ? '' : (source[0]?.trim().split(/\s/, 1)[0] ?? '');
  return first === '' ? `run:${kind}` : `run:${kind}:${first}`;
}

/** Joins command lines. The first line that fails ends the script with its exit code. */
const inTurn = (lines: readonly string[]): string =>
  lines.length === 1 ? lines.join('') : `set -e\n${lines.join('\n')}`;
