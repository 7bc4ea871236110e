// Executes an allowed call. The author of a tool, never its caller, decides which code runs and which
// server gets the author's secrets. Both are compared before and after parameters were filled in.
import { resolve } from 'node:path';
import {
  asJson,
  type Clock,
  createRedactor,
  type Failure,
  type Fault,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import { fillConfig } from '../../expr/index.ts';
import {
  carries,
  type Descriptor,
  describe,
  descriptorOfFault,
  EMPTY,
  type LabelRecords,
  labelFields,
  makeContainer,
  makeValue,
  markFailure,
  mergeAll,
  mergeDescriptors,
  namedFolders,
  type ResultFacts,
  removeLabels,
  type Value,
  withOrigin,
} from '../../flow/index.ts';
import type { Authority, Caller } from '../call.ts';
import {
  hasStarted,
  markNotStarted,
  type Primitive,
  type PrimitiveCall,
  type PrimitiveResult,
  type TouchedFile,
} from '../primitive.ts';
import { programCode } from '../primitives/program-tools.ts';
import { verifierOf } from '../rights/authority.ts';
import { resolveProjectPath } from '../rights/project-path.ts';
import { type ValidationError, validate } from './parameters.ts';
import type { Plan } from './plan.ts';
import type { Box, BoxWatch } from './process-marks.ts';
import { type RetryPorts, withRetry } from './retry.ts';
import { createSinks, moduleSinks, type SinkPorts } from './stream-sinks.ts';
import { type AskSignatures, refuseSecrets, unsignedLink } from './tool-rights.ts';

/** The text up to the first `/`, `?` or `#` after the scheme, which decides the server. */
const AUTHORITY = /^[^/?#]*(?:\/\/[^/?#]*)?/;
const PLACEHOLDER = /(?<!\$)\{\s*([A-Za-z_]\w*)\s*\}/g;

/**
 * True if the author listed the values, or declared the parameter as a destination. Rules over origins
 * then apply.
 */
function isDeclaredChoice(plan: Plan, name: string): boolean {
  const parameter = plan.parameters.find((each) => each.name === name);
  return parameter?.enum !== undefined || parameter?.role === 'destination';
}

/** Returns the refusal of a call whose parameters decide too much. Undefined if they do not. */
function chosenByCaller(
  plan: Plan,
  filled: { config: JsonObject; secrets: readonly string[] },
): Failure | undefined {
  const { id } = plan.leaf;
  const code = ['module', 'runtime', 'shell'];
  // The author must choose a program that gets secrets.
  if (plan.primitive === 'mcp' && filled.secrets.length > 0) code.push('command');
  for (const field of code) {
    if (getOwn(plan.config, field) === getOwn(filled.config, field)) continue;
    return fail(
      'config_invalid',
      `tool \`${id}\` must have a constant \`config.${field}\`, because its signature covers the field`,
      { config_path: `config.${field}` },
    );
  }
  const at = plan.primitive === 'mcp' ? 'mcp_url' : 'url';
  const url = getOwn(plan.config, at);
  if (filled.secrets.length === 0 || typeof url !== 'string') return undefined;
  const host = AUTHORITY.exec(url)?.[0] ?? '';
  const deciding = [...host.matchAll(PLACEHOLDER)].map(([, name = '']) => name);
  const name = deciding.find((each) => !isDeclaredChoice(plan, each));
  if (name === undefined) return undefined;
  return fail(
    'config_invalid',
    `tool \`${id}\` would send a secret to a host that its parameter \`${name}\` chooses; end the host with \`/\`, or give the parameter an \`enum\` or \`role: destination\``,
    { config_path: `config.${at}` },
  );
}

/** Removes the call's secrets from a fault, in whatever form it quotes them. */
function redactFailure(failure: Failure, secrets: readonly string[], isTrusted: boolean): Failure {
  const { code, detail } = failure.error;
  const clean: Failure = {
    ok: false,
    // Symbols stay, because they identify the maker of the fault.
    error: { code, detail: { ...detail, ...createRedactor(secrets).json(detail) } },
  };
  const marks = descriptorOfFault(failure.error);
  return markFailure(clean, isTrusted ? removeLabels(marks, ['untrusted']) : marks);
}

function redactResult(result: PrimitiveResult, secrets: readonly string[]): PrimitiveResult {
  const { json } = createRedactor(secrets);
  const { output, sources } = result;
  return { ...result, output: json(output), ...(sources && { sources: json([...sources]) }) };
}

/**
 * The parts that the body of an allowed call needs: it fills the config, creates sinks, calls the
 * primitive and labels the result.
 */
export interface BodyPorts {
  primitives: ReadonlyMap<string, Primitive>;
  sinks: SinkPorts;
  retry: RetryPorts;
  labels: LabelRecords;
  clock: Clock;
  env: Readonly<Record<string, string | undefined>>;
  projectRoot: string;
  signatures: AskSignatures;
}

/** A call that may be executed: its parameters are checked, its rights narrowed. */
export interface AllowedCall {
  plan: Plan;
  parameters: JsonObject;
  authority: Authority;
}

interface FilledConfig {
  config: JsonObject;
  secrets: string[];
}

/** Stands in place of the content hash of a stream that has not ended. */
const STREAM = 'stream';
/** Data from the network is untrusted unless a policy or tool declares otherwise. */
const NETWORK = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:network'] });

const isStreaming = (config: JsonObject, parameters: JsonObject): boolean =>
  isObject(getOwn(config, 'stream')) &&
  (config.mode === 'stream' ||
    getOwn(parameters, 'stream') === true ||
    getOwn(config.body ?? null, 'stream') === true);

/**
 * Facts about the call that a config may use: `{thread_id}`, unless a parameter has this name, and the
 * idempotency key.
 */
type CallFacts = Pick<Caller, '__thread_id' | 'idempotencyKey'>;

/** Fills environment variables and parameters into the merged config. Returns secrets separately. */
export function completeConfig(
  plan: Plan,
  parameters: JsonObject,
  env: BodyPorts['env'],
  verbatim: readonly string[] = [],
  { __thread_id: thread, idempotencyKey: key }: CallFacts = {},
): Outcome<FilledConfig> {
  if (plan.isFixed) return ok({ config: plan.config, secrets: [] });
  const required = new Set(
    plan.parameters.filter((parameter) => parameter.required).map((parameter) => parameter.name),
  );
  // One pass over the authored text, so that neither a secret nor a parameter is parsed as a
  // placeholder. No parameter has the name of the key, because its prefix is reserved.
  const values = {
    ...(thread === undefined ? {} : { thread_id: thread }),
    ...parameters,
    ...(key === undefined ? {} : { __idempotency_key: key }),
  };
  const open = { ...plan.config };
  const verbatimFields = Object.entries(open).filter(([name]) => verbatim.includes(name));
  for (const [name] of verbatimFields) delete open[name];
  const filled = fillConfig(open, { env, declared: plan.env, parameters: values, required });
  if (!filled.ok) return filled;
  const config = { ...(filled.output.value as JsonObject), ...Object.fromEntries(verbatimFields) };
  const complete = { config, secrets: filled.output.secrets };
  return chosenByCaller(plan, complete) ?? ok(complete);
}

/** Returns the call for the primitive, without its sinks. */
export function primitiveCall(
  { plan, parameters, authority }: AllowedCall,
  { config, secrets }: FilledConfig,
  tool: PrimitiveCall['tool'],
  { projectRoot, signal }: { projectRoot: string; signal: AbortSignal },
): PrimitiveCall {
  const { dependencies } = plan;
  const program = programCode(plan.leaf);
  return {
    tool,
    ...(program && { program }),
    // A runtime uses the packages that all links of the chain declare.
    config: dependencies.length === 0 ? config : { ...config, dependencies: [...dependencies] },
    parameters,
    sinks: [],
    verify: verifierOf(authority),
    signal,
    projectRoot,
    timeoutMs: plan.timeoutMs,
    secrets,
  };
}

/** Returns the caller for a primitive: its identity, its rights of this call, and the surface. */
function originOf(caller: Caller): NonNullable<PrimitiveCall['from']> {
  const { surface, name, isApproved, isViewer, handles, __auth, __thread_id, __directive_id } =
    caller;
  return {
    surface,
    ...(isApproved && { isApproved }),
    ...(isViewer && { isViewer }),
    ...(handles && { handles }),
    ...(name === undefined ? {} : { name }),
    ...(__auth === undefined ? {} : { __auth }),
    ...(__thread_id === undefined ? {} : { __thread_id }),
    ...(__directive_id === undefined ? {} : { __directive_id }),
  };
}

/** Executes one attempt. It gets new sinks, which count delivered events. */
async function attempt(
  ports: BodyPorts,
  primitive: Primitive,
  call: PrimitiveCall,
  to: { threadId: string | undefined; canStream: boolean } & Pick<Caller, 'sinks' | 'filter'>,
  counter: { delivered: number },
): Promise<Outcome<PrimitiveResult>> {
  const created =
    to.canStream && isStreaming(call.config, call.parameters)
      ? await createSinks(call.config, ports.sinks, {
          projectRoot: ports.projectRoot,
          threadId: to.threadId,
          isReadByCaller: to.sinks !== undefined,
          filter: to.filter,
          verify: call.verify,
          signal: call.signal,
          willWrite: (absolute) => call.willWrite?.(absolute, STREAM) ?? ok(null),
        })
      : undefined;
  if (created?.ok === false) return markNotStarted(created);
  try {
    if (created === undefined && to.sinks === undefined) return await primitive.run(call);
    const sinks = [...(created?.output.sinks ?? []), ...(to.sinks?.() ?? [])];
    return await primitive.run({ ...call, sinks });
  } catch (error) {
    const { message } = error as Error;
    return fail('internal_error', `primitive \`${primitive.name}\` failed: ${message}`);
  } finally {
    if (created) counter.delivered += created.output.delivered();
  }
}

/** Wraps the call in one retry loop for each link that declares one. */
function withRetries<T>(
  ports: BodyPorts,
  { retries, effect }: Plan,
  signal: AbortSignal,
  delivered: () => number,
  attempt: () => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  let run = attempt;
  for (const { retry } of retries.toReversed()) {
    const inner = run;
    run = () => withRetry(retry, effect, delivered, inner, signal, ports.retry);
  }
  return run();
}

/** Returns the recorded marks of files that a call read. */
function recordedMarks(
  labels: LabelRecords,
  files: readonly TouchedFile[] = [],
  { frame }: Pick<Caller, 'frame'>,
): Descriptor[] {
  const marks: Descriptor[] = [];
  for (const { access, absolute, inode, sha256 } of files) {
    if (access !== 'read') continue;
    const recorded = labels.recall(absolute, sha256);
    if (recorded) marks.push(recorded);
    if (inode !== undefined) marks.push(labels.linked(inode, namedFolders(frame)));
  }
  return marks;
}

/** Returns the marks of a result: those of the primitive, and those of the files that it read. */
function marksOf(
  result: PrimitiveResult,
  records: LabelRecords,
  caller: Pick<Caller, 'frame'>,
): Descriptor {
  const { labels: taint = [], sources = [], marks = EMPTY, files } = result;
  const labels: string[] = [];
  for (const mark of taint) if (!/^(src|dir):/.test(mark)) labels.push(mark);
  return mergeAll([
    describe({ labels, taint, sources }),
    marks,
    ...recordedMarks(records, files, caller),
  ]);
}

/** Returns the marks of data that a process received, for the files that it wrote. */
function marksInside(
  records: LabelRecords,
  { resultFacts }: Plan,
  result: PrimitiveResult,
  caller: Caller,
): Descriptor {
  const marks = marksOf(result, records, caller);
  return resultFacts ? mergeDescriptors(marks, declaredUntrusted(resultFacts, false)) : marks;
}

/** Marks the files with output that did not fit into a result, so that reading them gives the same marks. */
function keepLongOutput(labels: LabelRecords, output: Json, marks: Descriptor): Outcome<null> {
  const truncated = getOwn(output, 'truncated');
  for (const stream of isObject(truncated) && marks !== EMPTY ? ['stdout', 'stderr'] : []) {
    const file = getOwn(getOwn(truncated, stream), 'file');
    if (typeof file !== 'string') continue;
    const recorded = labels.rememberFolder(resolve(labels.root, file), marks, 'box');
    if (!recorded.ok) return recorded;
  }
  return ok(null);
}

/** True if a policy trusts the tool and a signature proves that it is unchanged. */
const isTrusted = ({ leaf, unsigned }: Plan, { frame }: Pick<Caller, 'frame'>): boolean =>
  frame.policy.trusts(leaf.id) && !unsigned;

const OUTSIDE = /^(?:net\.|git\.push$)/;

const UNTRUSTED = describe({ labels: ['untrusted'] });

/** Returns the marks for the declared untrusted parts of a result. */
function declaredUntrusted(
  { untrusted, free_text, identifiers }: ResultFacts,
  isOurs: boolean,
): Descriptor {
  return (untrusted && !isOurs) || free_text || identifiers ? UNTRUSTED : EMPTY;
}

/** Returns the marks of text from the network, which a process may quote, also on failure. */
function networkMarks(
  { primitive, requires, resultFacts }: Plan,
  fault: Fault,
  isOurs: boolean,
): Descriptor {
  if (resultFacts?.untrusted && !isOurs) return NETWORK;
  if (!hasStarted(fault)) return EMPTY;
  const isOut = primitive === 'subprocess' && requires.some((name) => OUTSIDE.test(name));
  if (isOut && !isOurs) return NETWORK;
  return resultFacts ? declaredUntrusted(resultFacts, isOurs) : EMPTY;
}

/** Removes the tool's own `untrusted` label. Sources stay; labels of inputs and files are added separately. */
const trustedResult = ({ labels = [], ...result }: PrimitiveResult): PrimitiveResult => ({
  ...result,
  labels: labels.filter((label) => label !== 'untrusted'),
});

/** Maximum size of the arguments that are searched. Beyond it no answer field may be vouched for. */
const MAX_UNTRUSTED_TEXT = 10_000;
const folded = (data: Json): string => plainText(data).normalize('NFKC').trim().toLowerCase();

/** Yields single values with the name of their field, and the names themselves. */
function* singlesIn(data: Json, name = 'result'): Generator<[string, string]> {
  const open: [string, Json][] = [[name, data]];
  for (let next = open.pop(); next; next = open.pop()) {
    const [field, item] = next;
    if (typeof item !== 'object' || item === null) yield [field, folded(item)];
    else if (Array.isArray(item)) for (const one of item) open.push([field, one]);
    else open.push(...Object.entries(item));
  }
}

/** Returns all untrusted text of the arguments as one text. Undefined if it is too long. */
function untrustedText(inputs: readonly Value[]): string | undefined {
  const texts: string[] = [];
  for (const { data, meta, text } of inputs) {
    if (!carries(meta.descriptor, 'untrusted')) continue;
    if (text.length > MAX_UNTRUSTED_TEXT) return undefined;
    for (const [field, single] of singlesIn(data)) texts.push(folded(field), single);
  }
  return texts.join('\n');
}

/** A short value occurs in every text, so it must occur as a separate word. */
const isIn = (text: string, single: string): boolean =>
  single.length > 3
    ? text.includes(single)
    : text.split(/[^\p{L}\p{N}_-]+/u).includes(single) || text.split('\n').includes(single);

/**
 * Returns the facts for this result. A directory that repeats its argument does not confirm it: if
 * untrusted text is in the call, fields that repeat it count as free text.
 */
function factsFor(facts: ResultFacts, output: Json, inputs: readonly Value[]): ResultFacts {
  const { identifiers = [], directory, free_text = [], ...rest } = facts;
  if (identifiers.length === 0 && !directory) return facts;
  const requested = untrustedText(inputs);
  if (requested === '') return facts;
  if (requested === undefined) return { ...rest, free_text: [...free_text, ...identifiers] };
  const echoed = new Set<string>();
  for (const [field, single] of singlesIn(output)) {
    if (single !== '' && !echoed.has(field) && isIn(requested, single)) echoed.add(field);
  }
  return echoed.size === 0 ? facts : { ...facts, free_text: [...free_text, ...echoed] };
}

/** Attaches the facts about single fields to a value. An untrusted answer is marked as a whole. */
function withFields(
  value: Value,
  { resultFacts = UNTRUSTED_RESULT }: Plan,
  output: Json,
  inputs: readonly Value[],
  isOurs: boolean,
): Value {
  const { untrusted: _, ...fields } = resultFacts;
  return labelFields(value, factsFor(isOurs ? fields : resultFacts, output, inputs));
}
const UNTRUSTED_RESULT: ResultFacts = { untrusted: true };

/** Returns the fault of an answer that does not match `output_schema`. The call was executed. */
function unlikeSchema(id: string, errors: readonly ValidationError[]): Failure {
  const list = errors.map(({ field, error }) => `\`${field}\`: ${error}`).join('; ');
  const message = `the answer of \`${id}\` does not match its \`output_schema\`: ${list}; the call itself was made`;
  return fail('output_invalid', message, { validation_errors: asJson(errors) });
}

/**
 * Returns the result of the reader with facts for each field. An answer without facts is untrusted as a whole.
 */
function readResult(
  { output, parts, facts }: PrimitiveResult,
  callFacts: JsonObject,
  descriptor: Descriptor,
): Value {
  if (!parts) {
    const fields = isObject(output)
      ? { ...callFacts, ...output }
      : { result: output, ...callFacts };
    return labelFields(makeValue(fields, { descriptor }), facts ?? UNTRUSTED_RESULT);
  }
  const factParts = Object.entries(callFacts).map(
    ([name, data]) => [name, makeValue(data)] as const,
  );
  const whole = makeContainer(new Map([...factParts, ...parts]), descriptor);
  return facts ? withOrigin(whole, { facts: asJson(facts) }) : whole;
}

/** Returns the result as a value. Written files get its marks before any other process can read them. */
function labelled(
  ports: BodyPorts,
  plan: Plan,
  result: PrimitiveResult,
  inputs: readonly Value[],
  inputMarks: readonly Descriptor[],
  /** Marks of everything that a process could read. */
  inside: Descriptor,
  durationMs: number,
  caller: Caller,
): Outcome<Value> {
  const isOurs = isTrusted(plan, caller);
  const own = isOurs ? trustedResult(result) : result;
  const resultMarks = mergeDescriptors(marksOf(own, ports.labels, caller), inside);
  // Marks of the whole result, for files that contain all of it and for failures.
  const { resultFacts } = plan;
  const descriptor = resultFacts
    ? mergeDescriptors(resultMarks, declaredUntrusted(resultFacts, isOurs))
    : resultMarks;
  for (const file of result.files ?? []) {
    // Functions declared their writes in advance, and their answer is not in the file.
    if (file.access !== 'written' || plan.primitive === 'function') continue;
    // The content of a stream is known only now. The file contains what was in the answer.
    const recorded = ports.labels.remember(file.absolute, file.sha256, [...inputMarks, descriptor]);
    if (!recorded.ok) return recorded;
  }
  const recorded = keepLongOutput(
    ports.labels,
    result.output,
    mergeAll([...inputMarks, descriptor]),
  );
  if (!recorded.ok) return recorded;
  const facts = { duration_ms: Math.round(durationMs), chain: [...plan.chain] };
  const { output } = result;
  const errors = plan.outputSchema ? validate(output, plan.outputSchema) : [];
  if (errors.length > 0) {
    return markFailure(unlikeSchema(plan.leaf.id, errors), mergeAll([...inputMarks, descriptor]));
  }
  if (plan.op.reads || result.facts) return ok(readResult(result, facts, resultMarks));
  const fields = isObject(output) ? { ...facts, ...output } : { result: output, ...facts };
  if (ports.primitives.get(plan.primitive)?.isRetold) return ok(makeValue(fields, { descriptor }));
  const value = makeValue(fields, { descriptor: resultMarks });
  if (!resultFacts && !carries(resultMarks, 'untrusted')) return ok(value);
  return ok(withFields(value, plan, output, inputs, isOurs));
}

/** Returns the values of the variables that a chain declares. */
export function declaredIn(env: BodyPorts['env'], plan: Plan): string[] {
  const values: string[] = [];
  for (const name of plan.env) values.push(...(env[name] === undefined ? [] : [env[name]]));
  return values;
}

/** Returns the modules that receive the stream, each in its own process. */
const sinksOf = (ports: BodyPorts, { canStream }: Plan, { config, parameters }: PrimitiveCall) =>
  canStream && isStreaming(config, parameters) ? moduleSinks(config, ports.sinks) : [];

let marking: Promise<typeof import('./process-marks.ts')> | undefined;

/** Called before a child starts. Loads its code with the first call. */
export async function watchProcess(box: Box): Promise<Outcome<BoxWatch>> {
  marking ??= import('./process-marks.ts');
  const watch = (await marking).watchBox(box);
  const stored = box.records.shared ? await box.records.shared.keep() : watch;
  return stored.ok ? watch : stored;
}

/**
 * INVARIANT: files that a process may write are always marked before it starts, so a failure, a timeout
 * or a kill leaves no unmarked file. Data from the network counts as read.
 */
function boxOf(
  { labels }: BodyPorts,
  plan: Plan,
  { tool, verify, given: inputMarks = EMPTY }: PrimitiveCall,
  sinks: readonly PrimitiveCall['tool'][],
  caller: Caller,
) {
  const { frame } = caller;
  const { primitive, resultFacts } = plan;
  // If a policy disables the sandbox, no right restricts the process.
  const isOpen = tool.sandbox === 'none' || frame.policy.sandbox === 'none';
  const own = primitive === 'subprocess' ? [tool] : [];
  const writers = [...own, ...sinks].filter(
    ({ effect, sandbox }) => effect !== 'read' && sandbox !== 'strict',
  );
  const fromNetwork = [...(isTrusted(plan, caller) ? [] : own), ...sinks].filter(
    ({ requires, sandbox }) => sandbox !== 'strict' && requires.some((name) => OUTSIDE.test(name)),
  );
  return watchProcess({
    records: labels,
    verify,
    named: namedFolders(frame),
    sees: tool.sees,
    isOpen,
    mayWrite: isOpen || writers.length > 0,
    given: mergeDescriptors(inputMarks, frame.influence),
    written: mergeAll([
      fromNetwork.length > 0 ? NETWORK : EMPTY,
      sinks.length > 0 ? streamed(plan, caller) : EMPTY,
      resultFacts ? declaredUntrusted(resultFacts, false) : EMPTY,
    ]),
  });
}

/**
 * Records the marks of a value that becomes the name of a file, because the folder then shows the value. If
 * the guards changed the number of inputs, the marks of all inputs are recorded.
 */
function nameFiles(
  { labels, projectRoot }: BodyPorts,
  { plan, parameters }: AllowedCall,
  inputMarks: readonly Descriptor[],
  { frame }: Caller,
): Outcome<null> {
  if (plan.effect === 'read' || !plan.roles) return ok(null);
  const names = Object.keys(parameters);
  for (const [at, name] of names.entries()) {
    const path = parameters[name];
    if (plan.roles.get(name) !== 'path' || typeof path !== 'string') continue;
    const own = names.length === inputMarks.length ? inputMarks.slice(at, at + 1) : inputMarks;
    const marks = mergeAll([frame.influence, ...own]);
    const place = marks === EMPTY ? undefined : resolveProjectPath(projectRoot, path);
    const recorded = place?.ok ? labels.rememberName(place.output.absolute, marks) : ok(null);
    if (!recorded.ok) return recorded;
  }
  return ok(null);
}

/** Returns the marks of a stream before its first byte. */
function streamed(plan: Plan, caller: Caller): Descriptor {
  const isOurs = isTrusted(plan, caller);
  if (plan.primitive === 'http_client' && !isOurs) return NETWORK;
  return plan.resultFacts ? declaredUntrusted(plan.resultFacts, isOurs) : EMPTY;
}

/** Records the marks of a write in advance, here and in shared label records. */
const rememberWrites =
  (
    { labels }: BodyPorts,
    plan: Plan,
    inputMarks: readonly Descriptor[],
    caller: Caller,
  ): NonNullable<PrimitiveCall['willWrite']> =>
  (absolute, sha256, from, before) => {
    const { shared } = labels;
    const recorded = labels.remember(absolute, sha256, [
      ...inputMarks,
      ...recordedMarks(labels, from, caller),
      ...(sha256 === STREAM ? [streamed(plan, caller)] : []),
    ]);
    const { __thread_id: thread } = caller;
    if (!recorded.ok) return recorded;
    // A thread may change a file that it created, as long as no other caller changed it.
    const isOwn =
      before !== undefined &&
      thread !== undefined &&
      (before === null || labels.isMade(absolute, before, thread));
    const owned = isOwn ? labels.rememberMade(absolute, sha256, thread) : recorded;
    return owned.ok && shared ? shared.keep() : owned;
  };

const valuesByName = (parameters: JsonObject, inputs: readonly Value[]) =>
  new Map(Object.keys(parameters).map((name, at) => [name, inputs[at] as Value]));

/** Executes an allowed call with the inputs that the guards passed on. */
export async function runBody(
  ports: BodyPorts,
  allowed: AllowedCall,
  inputs: readonly Value[],
  caller: Caller,
): Promise<Outcome<Value>> {
  const { plan, parameters } = allowed;
  const primitive = ports.primitives.get(plan.primitive);
  if (!primitive) {
    return fail('config_invalid', `primitive \`${plan.primitive}\` is not available here`);
  }
  const unsigned = plan.unsigned && unsignedLink(plan, ports.signatures);
  const refused = unsigned && refuseSecrets(plan, unsigned);
  if (refused?.ok === false) return refused;
  const { idempotencyKey } = caller;
  const filled = completeConfig(plan, parameters, ports.env, primitive.verbatim, caller);
  if (!filled.ok) return filled;
  // Declared variables are in a child's environment, also if no config field uses them.
  const declared = plan.env.size === 0 ? [] : declaredIn(ports.env, plan);
  const secrets = [...filled.output.secrets, ...declared];
  const signal = caller.signal ?? new AbortController().signal;
  const inputMarks = inputs.map((input) => input.meta.descriptor);
  const { projectRoot, labels } = ports;
  const { shared } = labels;
  /** Functions that compute the marks of reads again, because other processes may have written. */
  const readMarks: (() => Descriptor)[] = [];
  const facts = unsigned ? plan.strictFacts : plan.facts;
  const call: PrimitiveCall = {
    ...primitiveCall(allowed, filled.output, facts, { projectRoot, signal }),
    from: originOf(caller),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    given: mergeAll([caller.frame.influence, ...inputMarks]),
    ...((plan.op.reads || primitive.isOfDirectives) && {
      values: valuesByName(parameters, inputs),
    }),
    seen(files, folders = []) {
      const places = shared ? [...folders] : folders;
      const look = (): Descriptor =>
        mergeAll([
          labels.looked(places, namedFolders(caller.frame)),
          ...recordedMarks(labels, files, caller),
        ]);
      if (shared) readMarks.push(look);
      return look();
    },
    ...(caller.holds !== undefined && { holds: caller.holds }),
    ...(caller.approved !== undefined && { approved: caller.approved }),
    ...(caller.onOutput && { onOutput: caller.onOutput }),
    willWrite: rememberWrites(ports, plan, inputMarks, caller),
  };
  const named = nameFiles(ports, allowed, inputMarks, caller);
  if (!named.ok) return named;
  // Streams may write to the thread's folder without a right of their own, but not those of an unsigned tool.
  const threadId = unsigned ? undefined : caller.__thread_id;
  const started = ports.clock.monotonic();
  const counter = { delivered: 0 };
  const { sinks, filter } = caller;
  const to = { threadId, canStream: plan.canStream, ...(sinks && { sinks, filter }) };
  const modules = sinksOf(ports, plan, call);
  const box =
    plan.primitive === 'subprocess' || modules.length > 0
      ? await boxOf(ports, plan, call, modules, caller)
      : undefined;
  if (box?.ok === false) return box;
  const announced = shared ? await shared.keep() : named;
  if (!announced.ok) return announced;
  const ran =
    plan.retries.length === 0
      ? await attempt(ports, primitive, call, to, counter)
      : await withRetries(
          ports,
          plan,
          signal,
          () => counter.delivered,
          () => attempt(ports, primitive, call, to, counter),
        );
  // A process that wrote a file during the call recorded its marks before.
  if (shared) await shared.catchUp();
  const inBox = box ? box.output.marks : EMPTY;
  const marksOfReads = shared ? mergeAll([inBox, ...readMarks.map((look) => look())]) : inBox;
  const ended =
    box?.output.ended(ran.ok ? marksInside(ports.labels, plan, ran.output, caller) : EMPTY) ??
    ok(null);
  if (!ended.ok) return ended;
  // INVARIANT: the value of an environment variable never leaves a call in its result, whichever
  // primitive received it.
  if (!ran.ok) {
    const isOurs = isTrusted(plan, caller);
    const marks = mergeDescriptors(marksOfReads, networkMarks(plan, ran.error, isOurs));
    const long = keepLongOutput(ports.labels, ran.error.detail, marks);
    const stored = long.ok && shared ? await shared.keep() : long;
    if (!stored.ok) return stored;
    return markFailure(redactFailure(ran, secrets, isOurs), marks);
  }
  const durationMs = ports.clock.monotonic() - started;
  const result = secrets.length === 0 ? ran.output : redactResult(ran.output, secrets);
  const value = labelled(ports, plan, result, inputs, inputMarks, marksOfReads, durationMs, caller);
  const stored = shared ? await shared.keep() : value;
  return stored.ok ? value : stored;
}
