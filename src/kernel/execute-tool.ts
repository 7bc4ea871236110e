// One tool call, from its id to its labelled result: plan, parameters, the operation pipeline with
// the capability gate, config filled in, sinks, the primitive with the retries its chain declares.
import {
  type Clock,
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  withDetail,
} from '../base/index.ts';
import { fillConfig } from '../expr/index.ts';
import {
  childFrame,
  type Descriptor,
  describe,
  EMPTY,
  type Input,
  type LabelRecords,
  makeValue,
  mergeAll,
  type Operation,
  perform,
  type Value,
} from '../flow/index.ts';
import type { Library } from '../items/index.ts';
import { type Authority, type Caller, type ExecuteRequest, givenValue } from './call.ts';
import { chosenByCaller } from './caller-choice.ts';
import { type Plan, resolvePlan, type ToolItem } from './chain.ts';
import { checkParameters } from './parameters.ts';
import type { Primitive, PrimitiveCall, PrimitiveResult, TouchedFile } from './primitive.ts';
import { redactFailure, redactResult } from './redact-call.ts';
import { type RetryPorts, withRetry } from './retry.ts';
import {
  gateTool,
  refusePatterns,
  refuseSecrets,
  restrictUnsigned,
  type SignaturePolicy,
  toolFacts,
  unsignedLink,
} from './tool-rights.ts';
import { createSinks, type SinkPorts, type SinkSet } from './tool-sinks.ts';

export interface ToolPorts {
  library: Library;
  primitives: ReadonlyMap<string, Primitive>;
  sinks: SinkPorts;
  retry: RetryPorts;
  labels: LabelRecords;
  clock: Clock;
  env: Readonly<Record<string, string | undefined>>;
  projectRoot: string;
  /** Asked at every call: a policy may have changed meanwhile. */
  signatures: () => SignaturePolicy;
  /** Prepares a tool's declared dependencies, or says what is missing. */
  prepare?: (plan: Plan, signal: AbortSignal) => Promise<Outcome<null>>;
}

/** Stands for the content of a stream that is not over yet. */
const STREAM = 'stream';
/** What comes in over the network is a stranger's, until somebody says otherwise. */
const NETWORK = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:network'] });

const NO_SINKS: SinkSet = { sinks: [], delivered: () => 0 };

/** `op:tool:fs/write_file` and everything above it, most general first. */
export function toolKeys(id: string): string[] {
  const parts = id.split('/');
  return ['op:tool', ...parts.map((_, index) => `op:tool:${parts.slice(0, index + 1).join('/')}`)];
}

function operationOf(plan: Plan): Operation {
  const { leaf, tool } = plan;
  return {
    type: 'tool',
    subtype: plan.primitive,
    name: leaf.id,
    labels: tool.labels,
    opLabels: [...toolKeys(leaf.id), ...(plan.action ? [`op:tool:${leaf.id}:${plan.action}`] : [])],
    sources: [`tool:${leaf.id}`],
    risk: tool.risk,
    retryOwner: true,
    metadata: { effect: plan.effect, requires: [...plan.requires] },
  };
}

/** Each parameter is an input of the operation, with the role its declaration gives it. */
function inputsOf(plan: Plan, parameters: JsonObject, request: ExecuteRequest): Input[] {
  return Object.entries(parameters).map(([name, data]) => {
    const role = plan.parameters.find((parameter) => parameter.name === name)?.role;
    const given = givenValue(request, name);
    return { name, value: given ?? makeValue(data), ...(role ? { role } : {}) };
  });
}

const isStreaming = (config: JsonObject, parameters: JsonObject): boolean =>
  isObject(getOwn(config, 'stream')) &&
  (config.mode === 'stream' ||
    getOwn(parameters, 'stream') === true ||
    getOwn(config.body ?? null, 'stream') === true);

/** The merged config with environment and parameters in place. Secrets come back beside it. */
function completeConfig(
  plan: Plan,
  parameters: JsonObject,
  env: ToolPorts['env'],
  key?: string,
): Outcome<{ config: JsonObject; secrets: string[] }> {
  const required = new Set(
    plan.parameters.filter((parameter) => parameter.required).map((parameter) => parameter.name),
  );
  // In one pass over the authored text: neither a secret nor a parameter is read as a placeholder.
  // No parameter can have this name: those that begin so are the runtime's.
  const given = key === undefined ? parameters : { ...parameters, __idempotency_key: key };
  const filled = fillConfig(plan.config, { env, declared: plan.env, parameters: given, required });
  if (!filled.ok) return filled;
  const complete = { config: filled.output.value as JsonObject, secrets: filled.output.secrets };
  return chosenByCaller(plan, complete) ?? ok(complete);
}

/** A runtime looks for the packages that any link of the chain declares. */
function withDependencies(config: JsonObject, plan: Plan): JsonObject {
  const dependencies = plan.links.flatMap((link) => link.tool?.dependencies ?? []);
  return dependencies.length === 0 ? config : { ...config, dependencies };
}

/** Adds the chain and the failing link; the code stays the link's own. */
function inChain(failure: Failure, plan: Plan): Failure {
  const { code, detail } = failure.error;
  const { validation_errors, config_path } = detail;
  const failedAt: JsonObject = {
    tool_id: plan.leaf.id,
    config_path: config_path ?? null,
    ...(validation_errors === undefined ? {} : { validation_errors }),
  };
  const named =
    code === '' ? { ...failure, error: { ...failure.error, code: 'tool_chain_failed' } } : failure;
  return withDetail(named, {
    chain: [...plan.chain],
    failed_at: failedAt,
    cause: { code: code || 'tool_chain_failed', message: detail.message },
  });
}

/** What a primitive is told about its caller: the same three fields, and where the call came in. */
const originOf = (caller: Caller): NonNullable<PrimitiveCall['from']> => {
  const { surface, name, __auth, __thread_id, __directive_id } = caller;
  return {
    surface,
    ...(name === undefined ? {} : { name }),
    ...(__auth === undefined ? {} : { __auth }),
    ...(__thread_id === undefined ? {} : { __thread_id }),
    ...(__directive_id === undefined ? {} : { __directive_id }),
  };
};

export function createToolRunner(ports: ToolPorts) {
  /** What the primitive is handed, apart from its sinks. */
  function callOf(
    plan: Plan,
    parameters: JsonObject,
    filled: { config: JsonObject; secrets: string[] },
    authority: Authority,
    signal: AbortSignal,
  ): PrimitiveCall {
    return {
      tool: toolFacts(plan, ports.signatures()),
      config: withDependencies(filled.config, plan),
      parameters,
      sinks: [],
      verify: (need) => authority.check(need),
      signal,
      projectRoot: ports.projectRoot,
      timeoutMs: plan.timeoutMs,
      secrets: filled.secrets,
    };
  }

  async function attempt(
    primitive: Primitive,
    call: PrimitiveCall,
    { threadId, sinks }: { threadId: string | undefined; sinks: Caller['sinks'] },
    seen: { delivered: number },
  ): Promise<Outcome<PrimitiveResult>> {
    const made = isStreaming(call.config, call.parameters)
      ? await createSinks(call.config, ports.sinks, {
          projectRoot: ports.projectRoot,
          threadId,
          verify: call.verify,
          signal: call.signal,
          willWrite: (absolute) => call.willWrite?.(absolute, STREAM) ?? ok(null),
        })
      : ok(NO_SINKS);
    if (!made.ok) return made;
    try {
      return await primitive.run({ ...call, sinks: [...made.output.sinks, ...(sinks?.() ?? [])] });
    } catch (error) {
      return fail(
        'internal_error',
        `primitive \`${primitive.name}\` failed: ${(error as Error).message}`,
      );
    } finally {
      seen.delivered += made.output.delivered();
    }
  }

  /** The primitive, inside one retry loop for each link that declares one. */
  function withRetries(
    plan: Plan,
    primitive: Primitive,
    call: PrimitiveCall,
    caller: Caller,
  ): () => Promise<Outcome<PrimitiveResult>> {
    const seen = { delivered: 0 };
    // The folder of a thread opens to streams without a right of their own: not to a stranger's.
    const threadId = unsignedLink(plan, ports.signatures()) ? undefined : caller.__thread_id;
    let run = () => attempt(primitive, call, { threadId, sinks: caller.sinks }, seen);
    for (const { retry } of plan.retries.toReversed()) {
      const inner = run;
      run = () =>
        withRetry(retry, plan.effect, () => seen.delivered, inner, call.signal, ports.retry);
    }
    return run;
  }

  /** What is remembered about files that a call read. */
  const recalled = (files: readonly TouchedFile[] = []): Descriptor[] =>
    files.flatMap((file) =>
      file.access === 'read' ? (ports.labels.recall(file.absolute, file.sha256) ?? []) : [],
    );

  /** Marks of what came back: the primitive's own, and those remembered for the files it read. */
  function marksOf(result: PrimitiveResult): Descriptor {
    const marks = result.labels ?? [];
    const labels = marks.filter((label) => !/^(src|dir):/.test(label));
    const own = describe({ labels, taint: [...marks], sources: [...(result.sources ?? [])] });
    return mergeAll([own, result.marks ?? EMPTY, ...recalled(result.files)]);
  }

  async function runBody(
    plan: Plan,
    parameters: JsonObject,
    inputs: readonly Value[],
    authority: Authority,
    caller: Caller,
  ): Promise<Outcome<Value>> {
    const primitive = ports.primitives.get(plan.primitive);
    if (!primitive) {
      return fail('config_invalid', `primitive \`${plan.primitive}\` is not mounted here`);
    }
    const kept = refuseSecrets(plan, ports.signatures());
    if (!kept.ok) return kept;
    const filled = completeConfig(plan, parameters, ports.env, caller.idempotencyKey);
    if (!filled.ok) return filled;
    // Declared variables are in a child's environment too, expanded or not.
    const declared = [...plan.env].flatMap((name) => ports.env[name] ?? []);
    const secrets = [...filled.output.secrets, ...declared];
    const signal = caller.signal ?? new AbortController().signal;
    const prepared = (await ports.prepare?.(plan, signal)) ?? ok(null);
    if (!prepared.ok) return prepared;
    const given = inputs.map((input) => input.meta.descriptor);
    const call: PrimitiveCall = {
      ...callOf(plan, parameters, filled.output, authority, signal),
      from: originOf(caller),
      ...(caller.idempotencyKey === undefined ? {} : { idempotencyKey: caller.idempotencyKey }),
      given: mergeAll(given),
      willWrite: (absolute, sha256, from) =>
        ports.labels.remember(absolute, sha256, [
          ...given,
          ...recalled(from),
          ...(sha256 === STREAM && plan.primitive === 'http_client' ? [NETWORK] : []),
        ]),
    };
    const started = ports.clock.monotonic();
    const ran = await withRetries(plan, primitive, call, caller)();
    // INVARIANT: a value that came out of the environment does not come back out of a call,
    // whichever primitive it went into.
    if (!ran.ok) return redactFailure(ran, secrets);
    const result = redactResult(ran.output, secrets);
    const descriptor = marksOf(result);
    for (const file of result.files ?? []) {
      if (file.access !== 'written') continue;
      // Streams know their content only now; what was in the answer is in the file too.
      const kept = ports.labels.remember(file.absolute, file.sha256, [...given, descriptor]);
      if (!kept.ok) return kept;
    }
    const facts = {
      duration_ms: Math.round(ports.clock.monotonic() - started),
      chain: [...plan.chain],
    };
    const { output } = result;
    const shown = isObject(output) ? { ...facts, ...output } : { result: output, ...facts };
    return ok(makeValue(shown, { descriptor }));
  }

  /** What would run, with secrets masked; nothing is sent, started or written. */
  async function dryRun(
    plan: Plan,
    parameters: JsonObject,
    authority: Authority,
  ): Promise<Outcome<Value>> {
    const masked = Object.fromEntries([...plan.env].map((name) => [name, `<${name}>`]));
    const filled = completeConfig(plan, parameters, masked);
    if (!filled.ok) return inChain(filled, plan);
    const decision = gateTool(plan, authority);
    const call = callOf(plan, parameters, filled.output, authority, new AbortController().signal);
    return ok(
      makeValue({
        dry_run: true,
        chain: [...plan.chain],
        config: filled.output.config,
        parameters,
        requires: ['tool.execute', ...plan.requires],
        effect: plan.effect,
        sandbox: call.tool.sandbox,
        allowed: decision.ok,
        ...(decision.ok ? {} : { reason: decision.error.detail.message }),
        would_run: (await ports.primitives.get(plan.primitive)?.plan?.(call)) ?? {
          primitive: plan.primitive,
        },
      }),
    );
  }

  /** A dry run acts on nothing, but it shows a config: it is judged and recorded like the rest. */
  async function performDryRun(
    plan: Plan,
    parameters: JsonObject,
    authority: Authority,
    caller: Caller,
  ): Promise<Outcome<Value>> {
    const { id, category } = plan.leaf;
    const gate = (): Outcome<null> =>
      authority.sees('tool', category, id)
        ? ok(null)
        : fail('permission_denied', `tool \`${id}\` is not among the items this thread may use`);
    return await perform(
      { type: 'dry_run', name: id, opLabels: ['op:dry_run', `op:dry_run:${id}`] },
      [],
      () => dryRun(plan, parameters, authority),
      childFrame(caller.frame, { ports: { gate } }),
    );
  }

  return {
    async run(
      item: ToolItem,
      request: ExecuteRequest,
      caller: Caller,
      granted: Authority,
    ): Promise<Outcome<Value>> {
      const given = request.parameters ?? {};
      const resolved = resolvePlan(ports.library, item, given);
      if (!resolved.ok) return resolved;
      const plan = resolved.output;
      const harmless = refusePatterns(plan, ports.signatures());
      if (!harmless.ok) return inChain(harmless, plan);
      const checked = checkParameters(item.id, given, plan.parameters, plan.schema);
      if (!checked.ok) return inChain(checked, plan);
      const authority = restrictUnsigned(granted, plan, ports.signatures());
      if (request.dry_run) return await performDryRun(plan, checked.output, authority, caller);

      const inputs = inputsOf(plan, checked.output, request);
      const frame = childFrame(caller.frame, { ports: { gate: () => gateTool(plan, authority) } });
      const result = await perform(
        operationOf(plan),
        inputs,
        async (values) => {
          const passed = Object.fromEntries(
            inputs.map(({ name }, at) => [name, values[at]?.data as Json]),
          );
          const again = checkParameters(item.id, passed, plan.parameters, plan.schema);
          if (!again.ok) return again;
          return await runBody(plan, again.output, values, authority, caller);
        },
        frame,
      );
      return result.ok ? result : inChain(result, plan);
    },
  };
}
