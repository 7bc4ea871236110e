// What the author of a tool decides and its caller must not: which code runs, and who is sent the
// author's secrets. Both are compared after parameters were filled in.
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
  hasBegun,
  notBegun,
  type Primitive,
  type PrimitiveCall,
  type PrimitiveResult,
  type TouchedFile,
} from '../primitive.ts';
import { verifierOf } from '../rights/authority.ts';
import { resolveProjectPath } from '../rights/project-path.ts';
import { type ValidationError, validate } from './parameters.ts';
import type { Plan } from './plan.ts';
import type { Box, BoxWatch } from './process-marks.ts';
import { type RetryPorts, withRetry } from './retry.ts';
import { createSinks, moduleSinks, type SinkPorts } from './stream-sinks.ts';
import { type AskSignatures, refuseSecrets, unsignedLink } from './tool-rights.ts';

/** Up to the first `/`, `?` or `#` after the scheme: everything that decides where it goes. */
const AUTHORITY = /^[^/?#]*(?:\/\/[^/?#]*)?/;
const PLACEHOLDER = /(?<!\$)\{\s*([A-Za-z_]\w*)\s*\}/g;

/** Out of a list the author wrote, or declared as a destination: then rules over origins hold. */
function isDeclaredChoice(plan: Plan, name: string): boolean {
  const parameter = plan.parameters.find((each) => each.name === name);
  return parameter?.enum !== undefined || parameter?.role === 'destination';
}

/** Why a call is refused whose parameters decide too much; undefined when they do not. */
function chosenByCaller(
  plan: Plan,
  filled: { config: JsonObject; secrets: readonly string[] },
): Failure | undefined {
  const { id } = plan.leaf;
  const code = ['module', 'runtime', 'shell'];
  // A program that is handed secrets is one that its author chose.
  if (plan.primitive === 'mcp' && filled.secrets.length > 0) code.push('command');
  for (const field of code) {
    if (getOwn(plan.config, field) === getOwn(filled.config, field)) continue;
    return fail(
      'config_invalid',
      `tool \`${id}\` lets a parameter choose \`config.${field}\`, which no signature could cover; write it out`,
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

/** A fault without the call's secrets, in whatever form it quotes them. */
function redactFailure(failure: Failure, secrets: readonly string[], isTrusted: boolean): Failure {
  const { code, detail } = failure.error;
  const clean: Failure = {
    ok: false,
    // Symbols stay: they say who made the fault.
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

/** The body of a call that was allowed: fill the config, make sinks, call the primitive, label the result. */
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

/** A call that may be made: its parameters are checked, its rights narrowed. */
export interface AllowedCall {
  plan: Plan;
  parameters: JsonObject;
  authority: Authority;
}

interface FilledConfig {
  config: JsonObject;
  secrets: string[];
}

/** Stands for the content of a stream that is not over yet. */
const STREAM = 'stream';
/** What comes in over the network is a stranger's, until somebody says otherwise. */
const NETWORK = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:network'] });

const isStreaming = (config: JsonObject, parameters: JsonObject): boolean =>
  isObject(getOwn(config, 'stream')) &&
  (config.mode === 'stream' ||
    getOwn(parameters, 'stream') === true ||
    getOwn(config.body ?? null, 'stream') === true);

/** What a config may say of the call itself: `{thread_id}`, unless that is a parameter, and the key. */
type CallFacts = Pick<Caller, '__thread_id' | 'idempotencyKey'>;

/** The merged config with environment and parameters in place. Secrets come back beside it. */
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
  // In one pass over the authored text: neither a secret nor a parameter is read as a placeholder.
  // No parameter can have the name of the key: those that begin so are the runtime's.
  const given = {
    ...(thread === undefined ? {} : { thread_id: thread }),
    ...parameters,
    ...(key === undefined ? {} : { __idempotency_key: key }),
  };
  const open = { ...plan.config };
  const kept = Object.entries(open).filter(([name]) => verbatim.includes(name));
  for (const [name] of kept) delete open[name];
  const filled = fillConfig(open, { env, declared: plan.env, parameters: given, required });
  if (!filled.ok) return filled;
  const config = { ...(filled.output.value as JsonObject), ...Object.fromEntries(kept) };
  const complete = { config, secrets: filled.output.secrets };
  return chosenByCaller(plan, complete) ?? ok(complete);
}

/** What the primitive is handed, apart from its sinks. */
export function primitiveCall(
  { plan, parameters, authority }: AllowedCall,
  { config, secrets }: FilledConfig,
  tool: PrimitiveCall['tool'],
  { projectRoot, signal }: { projectRoot: string; signal: AbortSignal },
): PrimitiveCall {
  const { dependencies } = plan;
  return {
    tool,
    // A runtime looks for the packages that any link of the chain declares.
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

/** What a primitive is told about its caller: the same three fields, and where the call came in. */
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

/** One try: sinks are made for it, and count what reached them. */
async function attempt(
  ports: BodyPorts,
  primitive: Primitive,
  call: PrimitiveCall,
  to: { threadId: string | undefined; canStream: boolean } & Pick<Caller, 'sinks' | 'filter'>,
  seen: { delivered: number },
): Promise<Outcome<PrimitiveResult>> {
  const made =
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
  if (made?.ok === false) return notBegun(made);
  try {
    if (made === undefined && to.sinks === undefined) return await primitive.run(call);
    const sinks = [...(made?.output.sinks ?? []), ...(to.sinks?.() ?? [])];
    return await primitive.run({ ...call, sinks });
  } catch (error) {
    const { message } = error as Error;
    return fail('internal_error', `primitive \`${primitive.name}\` failed: ${message}`);
  } finally {
    if (made) seen.delivered += made.output.delivered();
  }
}

/** Inside one retry loop for each link that declares one. */
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

/** What is remembered about files that a call read. */
function recalled(
  labels: LabelRecords,
  files: readonly TouchedFile[] = [],
  { frame }: Pick<Caller, 'frame'>,
): Descriptor[] {
  const found: Descriptor[] = [];
  for (const { access, absolute, inode, sha256 } of files) {
    if (access !== 'read') continue;
    const kept = labels.recall(absolute, sha256);
    if (kept) found.push(kept);
    if (inode !== undefined) found.push(labels.linked(inode, namedFolders(frame)));
  }
  return found;
}

/** Marks of what came back: the primitive's own, and those remembered for the files it read. */
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
    ...recalled(records, files, caller),
  ]);
}

/** What a process may have written as well as answered. */
function marksInside(
  records: LabelRecords,
  { resultFacts }: Plan,
  result: PrimitiveResult,
  caller: Caller,
): Descriptor {
  const marks = marksOf(result, records, caller);
  return resultFacts ? mergeDescriptors(marks, strangersTold(resultFacts, false)) : marks;
}

/** What did not fit into a result stands in files, which are read with the same marks. */
function keepLongOutput(labels: LabelRecords, output: Json, marks: Descriptor): Outcome<null> {
  const truncated = getOwn(output, 'truncated');
  for (const stream of isObject(truncated) && marks !== EMPTY ? ['stdout', 'stderr'] : []) {
    const file = getOwn(getOwn(truncated, stream), 'file');
    if (typeof file !== 'string') continue;
    const kept = labels.rememberFolder(resolve(labels.root, file), marks, 'box');
    if (!kept.ok) return kept;
  }
  return ok(null);
}

/** A policy says so of it, and a signature that it is still the one that was meant. */
const isTrusted = ({ leaf, unsigned }: Plan, { frame }: Pick<Caller, 'frame'>): boolean =>
  frame.policy.trusts(leaf.id) && !unsigned;

const OUTSIDE = /^(?:net\.|git\.push$)/;

const STRANGERS = describe({ labels: ['untrusted'] });

/** What its file says of all that a tool answers: of fields that strangers write, too. */
function strangersTold(
  { untrusted, free_text, identifiers }: ResultFacts,
  isOurs: boolean,
): Descriptor {
  return (untrusted && !isOurs) || free_text || identifiers ? STRANGERS : EMPTY;
}

/** A process with a way to the network quotes what it heard there, also when it fails. */
function strangersIn(
  { primitive, requires, resultFacts }: Plan,
  fault: Fault,
  isOurs: boolean,
): Descriptor {
  if (resultFacts?.untrusted && !isOurs) return NETWORK;
  if (!hasBegun(fault)) return EMPTY;
  const isOut = primitive === 'subprocess' && requires.some((name) => OUTSIDE.test(name));
  if (isOut && !isOurs) return NETWORK;
  return resultFacts ? strangersTold(resultFacts, isOurs) : EMPTY;
}

/** Where it came from stays; labels of what went in, or of files that were read, are not its own. */
const trustedResult = ({ labels = [], ...result }: PrimitiveResult): PrimitiveResult => ({
  ...result,
  labels: labels.filter((label) => label !== 'untrusted'),
});

/** Longer arguments are not looked through; then nothing that is answered may be used as it is. */
const MAX_ASKED = 10_000;
const folded = (data: Json): string => plainText(data).normalize('NFKC').trim().toLowerCase();

/** Single values with the name of the field they stand in; names themselves, too. */
function* singlesIn(data: Json, name = 'result'): Generator<[string, string]> {
  const open: [string, Json][] = [[name, data]];
  for (let next = open.pop(); next; next = open.pop()) {
    const [field, item] = next;
    if (typeof item !== 'object' || item === null) yield [field, folded(item)];
    else if (Array.isArray(item)) for (const one of item) open.push([field, one]);
    else open.push(...Object.entries(item));
  }
}

/** Everything that strangers may have asked for, in one text; undefined when that is too much. */
function askedByStrangers(inputs: readonly Value[]): string | undefined {
  const asked: string[] = [];
  for (const { data, meta, text } of inputs) {
    if (!carries(meta.descriptor, 'untrusted')) continue;
    if (text.length > MAX_ASKED) return undefined;
    for (const [field, single] of singlesIn(data)) asked.push(folded(field), single);
  }
  return asked.join('\n');
}

/** Short values stand in every text: they must stand alone in it. */
const isIn = (asked: string, single: string): boolean =>
  single.length > 3
    ? asked.includes(single)
    : asked.split(/[^\p{L}\p{N}_-]+/u).includes(single) || asked.split('\n').includes(single);

/**
 * What may be said of this very result. A directory that repeats what it was asked for knows nothing of it:
 * with a stranger's words in the call, fields that say them again are free text.
 */
function factsFor(facts: ResultFacts, output: Json, inputs: readonly Value[]): ResultFacts {
  const { identifiers = [], directory, free_text = [], ...rest } = facts;
  if (identifiers.length === 0 && !directory) return facts;
  const asked = askedByStrangers(inputs);
  if (asked === '') return facts;
  if (asked === undefined) return { ...rest, free_text: [...free_text, ...identifiers] };
  const echoed = new Set<string>();
  for (const [field, single] of singlesIn(output)) {
    if (single !== '' && !echoed.has(field) && isIn(asked, single)) echoed.add(field);
  }
  return echoed.size === 0 ? facts : { ...facts, free_text: [...free_text, ...echoed] };
}

/** With what its tool says of single fields; of a stranger's answer, that all of it is one. */
function withFields(
  value: Value,
  { resultFacts = FOREIGN }: Plan,
  output: Json,
  inputs: readonly Value[],
  isOurs: boolean,
): Value {
  const { untrusted: _, ...fields } = resultFacts;
  return labelFields(value, factsFor(isOurs ? fields : resultFacts, output, inputs));
}
const FOREIGN: ResultFacts = { untrusted: true };

/** It was done, and its answer cannot be relied on. */
function unlikeSchema(id: string, errors: readonly ValidationError[]): Failure {
  const list = errors.map(({ field, error }) => `\`${field}\`: ${error}`).join('; ');
  const message = `what \`${id}\` answered is not what its \`output_schema\` says: ${list}; the call itself was made`;
  return fail('output_invalid', message, { validation_errors: asJson(errors) });
}

/** Who reads says of each answer what its fields are; of one that it says nothing of, all is a stranger's. */
function readResult(
  { output, parts, facts }: PrimitiveResult,
  known: JsonObject,
  descriptor: Descriptor,
): Value {
  if (!parts) {
    const shown = isObject(output) ? { ...known, ...output } : { result: output, ...known };
    return labelFields(makeValue(shown, { descriptor }), facts ?? FOREIGN);
  }
  const told = Object.entries(known).map(([name, data]) => [name, makeValue(data)] as const);
  const whole = makeContainer(new Map([...told, ...parts]), descriptor);
  return facts ? withOrigin(whole, { facts: asJson(facts) }) : whole;
}

/** The result as a value; files that were written keep its marks before anybody sees it. */
function labelled(
  ports: BodyPorts,
  plan: Plan,
  result: PrimitiveResult,
  inputs: readonly Value[],
  given: readonly Descriptor[],
  /** Of what a process could see. */
  inside: Descriptor,
  durationMs: number,
  caller: Caller,
): Outcome<Value> {
  const isOurs = isTrusted(plan, caller);
  const own = isOurs ? trustedResult(result) : result;
  const told = mergeDescriptors(marksOf(own, ports.labels, caller), inside);
  // Of all of it together: where it is written as a whole, and when it fails.
  const { resultFacts } = plan;
  const descriptor = resultFacts
    ? mergeDescriptors(told, strangersTold(resultFacts, isOurs))
    : told;
  for (const file of result.files ?? []) {
    // Functions have told what they were going to write; an answer of theirs is not in it.
    if (file.access !== 'written' || plan.primitive === 'function') continue;
    // Streams know their content only now; what was in the answer is in the file too.
    const kept = ports.labels.remember(file.absolute, file.sha256, [...given, descriptor]);
    if (!kept.ok) return kept;
  }
  const kept = keepLongOutput(ports.labels, result.output, mergeAll([...given, descriptor]));
  if (!kept.ok) return kept;
  const facts = { duration_ms: Math.round(durationMs), chain: [...plan.chain] };
  const { output } = result;
  const errors = plan.outputSchema ? validate(output, plan.outputSchema) : [];
  if (errors.length > 0) {
    return markFailure(unlikeSchema(plan.leaf.id, errors), mergeAll([...given, descriptor]));
  }
  if (plan.op.reads) return ok(readResult(result, facts, told));
  const shown = isObject(output) ? { ...facts, ...output } : { result: output, ...facts };
  if (ports.primitives.get(plan.primitive)?.isRetold) return ok(makeValue(shown, { descriptor }));
  const value = makeValue(shown, { descriptor: told });
  if (!resultFacts && !carries(told, 'untrusted')) return ok(value);
  return ok(withFields(value, plan, output, inputs, isOurs));
}

/** Values of the variables that a chain declares. */
export function declaredIn(env: BodyPorts['env'], plan: Plan): string[] {
  const values: string[] = [];
  for (const name of plan.env) values.push(...(env[name] === undefined ? [] : [env[name]]));
  return values;
}

/** Modules that a stream is handed to: each runs in a process of its own. */
const sinksOf = (ports: BodyPorts, { canStream }: Plan, { config, parameters }: PrimitiveCall) =>
  canStream && isStreaming(config, parameters) ? moduleSinks(config, ports.sinks) : [];

let marking: Promise<typeof import('./process-marks.ts')> | undefined;

/** To be called before a child starts; the code for it is loaded with the first one. */
export async function watchProcess(box: Box): Promise<Outcome<BoxWatch>> {
  marking ??= import('./process-marks.ts');
  const watch = (await marking).watchBox(box);
  const kept = box.records.shared ? await box.records.shared.keep() : watch;
  return kept.ok ? watch : kept;
}

/**
 * INVARIANT: what a process may write is marked before it starts, so a failure, a timeout or a kill leaves no
 * file without marks. What it hears from the network counts as heard.
 */
function boxOf(
  { labels }: BodyPorts,
  plan: Plan,
  { tool, verify, given = EMPTY }: PrimitiveCall,
  sinks: readonly PrimitiveCall['tool'][],
  caller: Caller,
) {
  const { frame } = caller;
  const { primitive, resultFacts } = plan;
  // Where a policy does without a sandbox, nothing says that there is one: rights hold nobody then.
  const isOpen = tool.sandbox === 'none' || frame.policy.sandbox === 'none';
  const own = primitive === 'subprocess' ? [tool] : [];
  const writers = [...own, ...sinks].filter(
    ({ effect, sandbox }) => effect !== 'read' && sandbox !== 'strict',
  );
  const strangers = [...(isTrusted(plan, caller) ? [] : own), ...sinks].filter(
    ({ requires, sandbox }) => sandbox !== 'strict' && requires.some((name) => OUTSIDE.test(name)),
  );
  return watchProcess({
    records: labels,
    verify,
    named: namedFolders(frame),
    sees: tool.sees,
    isOpen,
    mayWrite: isOpen || writers.length > 0,
    given: mergeDescriptors(given, frame.influence),
    written: mergeAll([
      strangers.length > 0 ? NETWORK : EMPTY,
      sinks.length > 0 ? streamed(plan, caller) : EMPTY,
      resultFacts ? strangersTold(resultFacts, false) : EMPTY,
    ]),
  });
}

/**
 * A value that becomes the name of a file can be read from the folder. Which parameter it was is
 * known where the guards have left the parameters in their places.
 */
function nameFiles(
  { labels, projectRoot }: BodyPorts,
  { plan, parameters }: AllowedCall,
  given: readonly Descriptor[],
  { frame }: Caller,
): Outcome<null> {
  if (plan.effect === 'read' || !plan.roles) return ok(null);
  const names = Object.keys(parameters);
  for (const [at, name] of names.entries()) {
    const path = parameters[name];
    if (plan.roles.get(name) !== 'path' || typeof path !== 'string') continue;
    const own = names.length === given.length ? given.slice(at, at + 1) : given;
    const marks = mergeAll([frame.influence, ...own]);
    const place = marks === EMPTY ? undefined : resolveProjectPath(projectRoot, path);
    const kept = place?.ok ? labels.rememberName(place.output.absolute, marks) : ok(null);
    if (!kept.ok) return kept;
  }
  return ok(null);
}

/** Of what comes in as a stream, before any of it has. */
function streamed(plan: Plan, caller: Caller): Descriptor {
  const isOurs = isTrusted(plan, caller);
  if (plan.primitive === 'http_client' && !isOurs) return NETWORK;
  return plan.resultFacts ? strangersTold(plan.resultFacts, isOurs) : EMPTY;
}

/** What is about to be written is known before: here, and wherever its labels are shared. */
const rememberWrites =
  (
    { labels }: BodyPorts,
    plan: Plan,
    given: readonly Descriptor[],
    caller: Caller,
  ): NonNullable<PrimitiveCall['willWrite']> =>
  (absolute, sha256, from, before) => {
    const { shared } = labels;
    const kept = labels.remember(absolute, sha256, [
      ...given,
      ...recalled(labels, from, caller),
      ...(sha256 === STREAM ? [streamed(plan, caller)] : []),
    ]);
    const { __thread_id: thread } = caller;
    if (!kept.ok) return kept;
    // What a thread has made it may change, as long as nobody else has.
    const isOwn =
      before !== undefined &&
      thread !== undefined &&
      (before === null || labels.isMade(absolute, before, thread));
    const made = isOwn ? labels.rememberMade(absolute, sha256, thread) : kept;
    return made.ok && shared ? shared.keep() : made;
  };

const valuesByName = (parameters: JsonObject, inputs: readonly Value[]) =>
  new Map(Object.keys(parameters).map((name, at) => [name, inputs[at] as Value]));

/** Runs an allowed call with the inputs that the guards passed on. */
export async function runBody(
  ports: BodyPorts,
  allowed: AllowedCall,
  inputs: readonly Value[],
  caller: Caller,
): Promise<Outcome<Value>> {
  const { plan, parameters } = allowed;
  const primitive = ports.primitives.get(plan.primitive);
  if (!primitive) {
    return fail('config_invalid', `primitive \`${plan.primitive}\` is not mounted here`);
  }
  const unsigned = plan.unsigned && unsignedLink(plan, ports.signatures);
  const refused = unsigned && refuseSecrets(plan, unsigned);
  if (refused?.ok === false) return refused;
  const { idempotencyKey } = caller;
  const filled = completeConfig(plan, parameters, ports.env, primitive.verbatim, caller);
  if (!filled.ok) return filled;
  // Declared variables are in a child's environment too, expanded or not.
  const declared = plan.env.size === 0 ? [] : declaredIn(ports.env, plan);
  const secrets = [...filled.output.secrets, ...declared];
  const signal = caller.signal ?? new AbortController().signal;
  const given = inputs.map((input) => input.meta.descriptor);
  const { projectRoot, labels } = ports;
  const { shared } = labels;
  /** What was looked at while others may have written; see below. */
  const looks: (() => Descriptor)[] = [];
  const facts = unsigned ? plan.strictFacts : plan.facts;
  const call: PrimitiveCall = {
    ...primitiveCall(allowed, filled.output, facts, { projectRoot, signal }),
    from: originOf(caller),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    given: mergeAll(given),
    ...((plan.op.reads || primitive.isOfDirectives) && {
      values: valuesByName(parameters, inputs),
    }),
    seen(files, folders = []) {
      const places = shared ? [...folders] : folders;
      const look = (): Descriptor =>
        mergeAll([
          labels.looked(places, namedFolders(caller.frame)),
          ...recalled(labels, files, caller),
        ]);
      if (shared) looks.push(look);
      return look();
    },
    ...(caller.holds !== undefined && { holds: caller.holds }),
    ...(caller.approved !== undefined && { approved: caller.approved }),
    ...(caller.onOutput && { onOutput: caller.onOutput }),
    willWrite: rememberWrites(ports, plan, given, caller),
  };
  const named = nameFiles(ports, allowed, given, caller);
  if (!named.ok) return named;
  // The folder of a thread opens to streams without a right of their own: not to a stranger's.
  const threadId = unsigned ? undefined : caller.__thread_id;
  const started = ports.clock.monotonic();
  const seen = { delivered: 0 };
  const { sinks, filter } = caller;
  const to = { threadId, canStream: plan.canStream, ...(sinks && { sinks, filter }) };
  const modules = sinksOf(ports, plan, call);
  const box =
    plan.primitive === 'subprocess' || modules.length > 0
      ? await boxOf(ports, plan, call, modules, caller)
      : undefined;
  if (box?.ok === false) return box;
  const told = shared ? await shared.keep() : named;
  if (!told.ok) return told;
  const ran =
    plan.retries.length === 0
      ? await attempt(ports, primitive, call, to, seen)
      : await withRetries(
          ports,
          plan,
          signal,
          () => seen.delivered,
          () => attempt(ports, primitive, call, to, seen),
        );
  // Who wrote a file meanwhile had said before what it is made of.
  if (shared) await shared.catchUp();
  const inBox = box ? box.output.marks : EMPTY;
  const seenInside = shared ? mergeAll([inBox, ...looks.map((look) => look())]) : inBox;
  const noted =
    box?.output.ended(ran.ok ? marksInside(ports.labels, plan, ran.output, caller) : EMPTY) ??
    ok(null);
  if (!noted.ok) return noted;
  // INVARIANT: a value that came out of the environment does not come back out of a call,
  // whichever primitive it went into.
  if (!ran.ok) {
    const isOurs = isTrusted(plan, caller);
    const marks = mergeDescriptors(seenInside, strangersIn(plan, ran.error, isOurs));
    const long = keepLongOutput(ports.labels, ran.error.detail, marks);
    const kept = long.ok && shared ? await shared.keep() : long;
    if (!kept.ok) return kept;
    return markFailure(redactFailure(ran, secrets, isOurs), marks);
  }
  const durationMs = ports.clock.monotonic() - started;
  const result = secrets.length === 0 ? ran.output : redactResult(ran.output, secrets);
  const value = labelled(ports, plan, result, inputs, given, seenInside, durationMs, caller);
  const kept = shared ? await shared.keep() : value;
  return kept.ok ? value : kept;
}
