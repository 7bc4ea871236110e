// Prepares one tool call: plan, parameters, the capability gate. run-primitive.ts executes an allowed call.
import {
  type Failure,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  setOwn,
  textAt,
  withDetail,
} from '../../base/index.ts';
import {
  type Input,
  type LookAtPlace,
  makeValue,
  type PreviewWrite,
  type Value,
  type WritePreview,
} from '../../flow/index.ts';
import { type Library, writerOf } from '../../items/index.ts';
import { normalizeCapability } from '../../trust/index.ts';
import type { ExecuteRequest, MadeCall, PreparedCall } from '../call.ts';
import { leftOut, underPolicies } from '../rights/authority.ts';
import { shownFile } from '../rights/item-marks.ts';
import { checkParameters } from './parameters.ts';
import { type Plan, type PlannedTool, resolvePlan } from './plan.ts';
import {
  type AllowedCall,
  type BodyPorts,
  completeConfig,
  primitiveCall,
  runBody,
} from './run-primitive.ts';
import { gateTool, refusePatterns, restrictUnsigned, toolFacts } from './tool-rights.ts';

export interface ToolPorts extends BodyPorts {
  library: Library;
}

/** Returns the labelled value for a parameter. Inherited names such as `constructor` have none. */
export function givenValue({ values }: ExecuteRequest, name: string): Value | undefined {
  return values && Object.hasOwn(values, name) ? values[name] : undefined;
}

/** Returns each parameter as an input of the operation, with its declared role and kind. */
export function inputsOf(
  request: ExecuteRequest,
  parameters: JsonObject,
  { roles, kinds }: Partial<Pick<Plan, 'roles' | 'kinds'>> = {},
): Input[] {
  const inputs: Input[] = [];
  const { values } = request;
  for (const name of Object.keys(parameters)) {
    const role = roles?.get(name);
    const labelled = values && Object.hasOwn(values, name) ? values[name] : undefined;
    const value = labelled ?? makeValue(parameters[name] as Json);
    const kind = kinds?.get(name);
    inputs.push({ name, value, ...(role && { role }), ...(kind && { kind }) });
  }
  return inputs;
}

/** Fields that decide the target of a call, by primitive. The first field that a link contains counts. */
const DECIDING: Readonly<Record<string, readonly string[]>> = {
  http_client: ['url'],
  subprocess: ['command', 'script', 'module'],
  script: ['module', 'script'],
  mcp: ['mcp_url', 'command'],
};

/** Returns the link, and the part of its config, that failed. */
function failedAt({ code, detail }: Failure['error'], plan: Plan): JsonObject {
  const { validation_errors, config_path, missing } = detail;
  const errors = validation_errors === undefined ? {} : { validation_errors };
  if (typeof config_path === 'string') {
    const [, ...path] = config_path.split('.');
    const { id } = writerOf(plan.links, ['config', ...path]);
    return { tool_id: id, config_path, ...errors };
  }
  const leaf = { tool_id: plan.leaf.id, config_path: null, ...errors };
  // The caller made a mistake or has no right, so the leaf is named.
  if (code === 'invalid_input') return leaf;
  if (code === 'permission_denied') {
    const needs = ({ tool }: PlannedTool): boolean =>
      tool?.requires.some((name) => normalizeCapability(name) === missing) === true;
    return { ...leaf, tool_id: plan.links.find(needs)?.id ?? plan.leaf.id };
  }
  const decides = DECIDING[plan.primitive] ?? ['function'];
  const part = decides.find((name) => getOwn(plan.config, name) !== undefined);
  if (part === undefined) return leaf;
  const { id } = writerOf(plan.links, ['config', part]);
  // A function of the bundle is not a choice of the author, so it has no config path.
  return { ...leaf, tool_id: id, config_path: part === 'function' ? null : `config.${part}` };
}

/** Adds the chain and the failing link. The code stays the link's own. */
export function inChain(failure: Failure, plan: Plan): Failure {
  const { code, detail } = failure.error;
  const named =
    code === '' ? { ...failure, error: { ...failure.error, code: 'tool_chain_failed' } } : failure;
  return withDetail(named, {
    chain: [...plan.chain],
    failed_at: failedAt(failure.error, plan),
    cause: { code: code || 'tool_chain_failed', message: detail.message },
  });
}

/** Returns what would run, with secrets masked. Nothing is sent, started or written. */
async function dryRun(ports: ToolPorts, allowed: AllowedCall): Promise<Outcome<Value>> {
  const { plan, parameters, authority } = allowed;
  const masked = Object.fromEntries([...plan.env].map((name) => [name, `<${name}>`]));
  const primitive = ports.primitives.get(plan.primitive);
  const filled = completeConfig(plan, parameters, masked, primitive?.verbatim);
  if (!filled.ok) return inChain(filled, plan);
  const decision = gateTool(plan, authority, parameters, primitive?.isOfDirectives);
  const { signal } = new AbortController();
  const { projectRoot } = ports;
  const facts = toolFacts(plan, ports.signatures);
  const call = primitiveCall(allowed, filled.output, facts, { projectRoot, signal });
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
      would_run: (await primitive?.plan?.(call)) ?? { primitive: plan.primitive },
    }),
  );
}

/** Removes the folders of this machine from a refusal that names the file of a tool. */
function withShownFile({ library }: ToolPorts, failure: Failure): Failure {
  const { code, detail } = failure.error;
  if (typeof detail.file !== 'string') return failure;
  const file = shownFile(library, detail.file);
  return { ok: false, error: { code, detail: { ...detail, file } } };
}

const REFUSED: ReadonlySet<string> = new Set(['permission_denied', 'needs_input']);

/**
 * A tool of an MCP server has the highest risk until a person sets its effect. A refusal for that reason
 * names the file to edit; a refusal for a missing right does not.
 */
function withMapping(failure: Failure, { tool, leaf }: Plan): Failure {
  const { code, detail } = failure.error;
  const { missing } = detail;
  const isOfEffect = missing === undefined || plainText(missing).startsWith('effect.');
  if (tool.tool_type !== 'mcp_tool' || !REFUSED.has(code) || !isOfEffect) return failure;
  const name = textAt(tool.config, 'mcp_tool');
  const entry = `tools: { ${/^\w+$/.test(name) ? name : 'NAME'}: { effect: read, risk: [] } }`;
  const file = `.ai/tools/${leaf.id.replace(/[^/]*$/, '')}mapping.yaml`;
  const sync = `km mcp sync ${textAt(tool.config, 'server') || 'NAME'}`;
  const remedy = `if it only reads, write \`${entry}\` into \`${file}\` and run \`${sync}\``;
  // Clients cannot call other servers, whatever the tool's effect, unless the user allows it.
  const isClient = detail.surface === 'mcp';
  const opened = isClient
    ? '; for clients add `surfaces: { mcp: { open: [mcp.*] } }` to your policy'
    : '';
  const message = `${detail.message}; ${remedy}${opened}`;
  return { ok: false, error: { code, detail: { ...detail, message } } };
}

/** A dry run has no effect, but its answer contains a config, so it is judged and recorded like a call. */
function dryCall(ports: ToolPorts, { plan, parameters }: CheckedCall): PreparedCall {
  const { id, category } = plan.leaf;
  return {
    op: { type: 'dry_run', name: id, opLabels: ['op:dry_run', `op:dry_run:${id}`] },
    gate: (authority) =>
      authority.sees('tool', category, id)
        ? ok(null)
        : leftOut(
            authority,
            'tool',
            plan.leaf,
            `tool \`${id}\` is not among the items this thread may use`,
          ),
    body: (_values, { authority }) => {
      const narrowed = restrictUnsigned(authority, plan, ports.signatures);
      return dryRun(ports, { plan, parameters, authority: narrowed });
    },
  };
}

/**
 * Returns the call with the inputs that the guards passed on, and the caller's rights. Changed
 * parameters are checked again.
 */
function allowedCall(
  ports: ToolPorts,
  { plan, parameters }: CheckedCall,
  inputs: readonly Input[],
  values: readonly Value[],
  { caller, authority }: Pick<MadeCall, 'caller' | 'authority'>,
): Outcome<AllowedCall> {
  let isSame = true;
  const passed: JsonObject = {};
  for (const [at, { name }] of inputs.entries()) {
    const data = values[at]?.data as Json;
    isSame &&= data === parameters[name];
    setOwn(passed, name, data);
  }
  const again = isSame
    ? ok(parameters)
    : checkParameters(plan.leaf.id, passed, plan.parameters, plan.schema);
  if (!again.ok) return again;
  const signed = restrictUnsigned(authority, plan, ports.signatures);
  const { guards } = caller.frame;
  const isProcess = plan.primitive === 'subprocess';
  const narrowed = guards.list.length > 0 ? underPolicies(signed, guards, isProcess) : signed;
  return ok({ plan, parameters: again.output, authority: narrowed });
}

type CheckedCall = Omit<AllowedCall, 'authority'>;

/** Adds the inspection of the target for a built-in file tool, which distinguishes creating from changing. */
const withPlace =
  ({ projectRoot, labels }: ToolPorts, by: string) =>
  (input: Input): Input => {
    if (input.role !== 'path') return input;
    const place: LookAtPlace = async (...request) => {
      const { lookAtPlace } = await import('../file-tools/write-place.ts');
      return await lookAtPlace({ projectRoot, labels, by }, ...request);
    };
    return { ...input, place };
  };

type PreviewPorts = Pick<ToolPorts, 'library' | 'projectRoot' | 'labels'>;

/** Returns the preview for a tool that ends in a built-in file function, also for a tool of the user. */
function previewBy({ projectRoot, labels }: PreviewPorts, plan: Plan): PreviewWrite | undefined {
  const { previews: by } = plan;
  if (by === undefined) return undefined;
  return async (values) => {
    const { previewWrite } = await import('../file-tools/write-preview.ts');
    const data = Object.fromEntries([...values].map(([name, value]) => [name, value.data]));
    const checked = checkParameters(plan.leaf.id, data, plan.parameters, plan.schema);
    if (!checked.ok) return undefined;
    const parameters = new Map(Object.entries(checked.output));
    return await previewWrite({ projectRoot, labels, by }, parameters);
  };
}

/** Returns the preview of a write for a tool that a script statement names. */
export async function previewTool(
  ports: PreviewPorts,
  item: PlannedTool,
  values: ReadonlyMap<string, Value>,
): Promise<WritePreview | undefined> {
  const data = Object.fromEntries([...values].map(([name, value]) => [name, value.data]));
  const plan = resolvePlan(ports.library, item, data);
  return plan.ok ? await previewBy(ports, plan.output)?.(values) : undefined;
}

function call(
  ports: ToolPorts,
  { plan, parameters }: CheckedCall,
  request: ExecuteRequest,
): PreparedCall {
  const plain = inputsOf(request, parameters, plan);
  const { writes } = plan;
  const placed = writes === undefined ? plain : plain.map(withPlace(ports, writes));
  const preview = plan.previews === undefined ? undefined : previewBy(ports, plan);
  const inputs = preview
    ? placed.map((input, at) => (at === 0 ? { ...input, preview } : input))
    : placed;
  return {
    op: plan.op,
    inputs,
    gate(authority) {
      const narrowed = restrictUnsigned(authority, plan, ports.signatures);
      const { isOfDirectives } = ports.primitives.get(plan.primitive) ?? {};
      return gateTool(plan, narrowed, parameters, isOfDirectives);
    },
    async foresee(values, call) {
      const allowed = allowedCall(ports, { plan, parameters }, inputs, values, call);
      if (!allowed.ok) return allowed;
      const { foreseeRefusal } = await import('./foresee-refusal.ts');
      return await foreseeRefusal(ports, allowed.output);
    },
    async body(values, call) {
      const allowed = allowedCall(ports, { plan, parameters }, inputs, values, call);
      return allowed.ok ? await runBody(ports, allowed.output, values, call.caller) : allowed;
    },
    explain: (failure) => inChain(withMapping(withShownFile(ports, failure), plan), plan),
  };
}

export type PrepareTool = (item: PlannedTool, request: ExecuteRequest) => Outcome<PreparedCall>;

/** Prepares everything about a call that is known before its caller is judged. Nothing runs. */
export const createToolPreparer =
  (ports: ToolPorts): PrepareTool =>
  (item, request) => {
    const parameters = request.parameters ?? {};
    const resolved = resolvePlan(ports.library, item, parameters);
    if (!resolved.ok) return resolved;
    const plan = resolved.output;
    if (plan.misconfigured) return inChain(plan.misconfigured, plan);
    const harmless = refusePatterns(plan, ports.signatures);
    if (!harmless.ok) return inChain(harmless, plan);
    const checked = checkParameters(item.id, parameters, plan.parameters, plan.schema);
    if (!checked.ok) return inChain(checked, plan);
    const fit = { plan, parameters: checked.output };
    return ok(request.dry_run ? dryCall(ports, fit) : call(ports, fit, request));
  };
