// Checks everything that a thread needs before it exists: directive, inputs, rights, model, key, price and limits. So
// a refusal leaves nothing behind.
import {
  type Fault,
  fail,
  type JsonObject,
  type Outcome,
  ok,
  pathWithin,
} from '../../base/index.ts';
import {
  canSpawn,
  type Directive,
  type DirectiveItem,
  type DirectiveLimits,
  hookProblems,
  resolveExtends,
  SHIPPED,
} from '../../items/index.ts';
import { checkInputs } from '../../kernel/index.ts';
import { type Price, type ResolvedModel, resolveModel } from '../../llm/index.ts';
import { missingAtStart } from '../../trust/index.ts';
import { type Attachment, readAttachments } from '../files/attachment.ts';
import { compileHooks } from '../hooks/select-hook.ts';
import { directiveLimits, type LimitSources } from '../limits/effective-limits.ts';
import type { EffectiveLimits } from '../limits/limit.ts';
import { compileRules, rulesOf } from '../rights/thread-rules.ts';
import { declaredRights, withExtended } from '../rights/thread-token.ts';
import { modelFor, priced, readyModel } from '../thread/choose-model.ts';
import type { ReadyFile } from '../thread/ports.ts';
import type { CompiledHook, Prepared, PreparePorts, ThreadMode } from '../thread/thread.ts';

export interface RunRequest {
  directive: string;
  inputs?: JsonObject;
  message?: string;
  /** Files for the model. They stand before the message. */
  attach?: readonly Attachment[];
  /** A tier or a model id instead of the directive's. */
  model?: string;
  /** Limits that narrow those of the directive. */
  limits?: DirectiveLimits;
  /** Writes the events of the provider to `stream.jsonl` of the thread. */
  stream?: boolean;
  /**
   * The model first writes all steps, from trusted texts alone, and then they are run. `check`: the plan is recorded
   * and not run. A directive with `mode="plan"` is planned without this option.
   */
  plan?: boolean | 'check';
  /** A person holds a conversation, in an editor for `acp`. Only a directive whose model replies can have one. */
  chat?: true | 'acp';
  /** Narrows the rights that the directive declares. Absent: it has all of them. */
  mode?: ThreadMode;
  /** Id of the new thread. Absent: it is generated. An id in use is refused with `thread_exists`. */
  id?: string;
  /** The actor of the request and its surface. */
  by?: StartedBy;
  /** Labels of the message and the inputs. With \`untrusted\` they are a stranger's words. */
  labels?: readonly string[];
}

export interface StartedBy {
  readonly who: string;
  readonly surface: string;
}

export type LimitsLeft = NonNullable<LimitSources['left']>;

function findDirective(
  ports: PreparePorts,
  name: string,
): Outcome<{ item: DirectiveItem; directive: Directive }> {
  const found = ports.library.find('directive', name);
  if (!found.ok) return found;
  const item = found.output;
  const { state, reason = '' } = item.signature;
  if (state === 'changed' || state === 'untrusted') {
    return fail(
      'signature_invalid',
      `directive \`${item.id}\` is ${state}: ${reason}; review it and sign it again`,
    );
  }
  if (!item.directive) {
    const first = item.diagnostics.find(({ severity }) => severity === 'error');
    const file = first && pathWithin(ports.project, first.file);
    const place = first ? `${file}:${first.line}:${first.column}: ${first.message}` : '';
    return fail('invalid_item', `directive \`${item.id}\` has errors: ${place}`);
  }
  return ok({ item, directive: withExtended(ports, item.directive) });
}

const SIGNED: ReadonlySet<string> = new Set(['signed', 'bundle', 'program']);

/** True if the directive and all its bases are signed. A base grants rights too. */
function isSignedWhole({ library }: Pick<PreparePorts, 'library'>, item: DirectiveItem): boolean {
  const items = [item];
  const below = (name: string): DirectiveItem['directive'] => {
    const found = library.find('directive', name);
    if (found.ok) items.push(found.output);
    return found.ok ? found.output.directive : undefined;
  };
  if (item.directive) resolveExtends(item.directive, below);
  return items.every(({ signature }) => SIGNED.has(signature.state));
}

/** Fails unless the policy of the surface allows the directive to be started there. */
export function mayStart(ports: PreparePorts, surface: string, name: string): Outcome<null> {
  const access = ports.policies().policy.directives(surface);
  if (access === 'all') return ok(null);
  const found = ports.library.find('directive', name);
  if (!found.ok) return found;
  if (access === 'signed' && isSignedWhole(ports, found.output)) return ok(null);
  return fail(
    'permission_denied',
    `surface \`${surface}\` can start ${access === 'none' ? 'no directives' : 'only signed directives'}`,
    { missing: 'spawn.thread', attempted: name },
  );
}

/**
 * Fails for permissions that cannot be read. An unsigned directive can have read rights only, so the check fails if
 * it declares more.
 */
function checkPermissions(
  ports: PreparePorts,
  item: DirectiveItem,
  directive: Directive,
): Outcome<null> {
  const rights = declaredRights(ports, directive);
  if (!rights.ok) return rights;
  const isSigned = item.signature.state !== 'unsigned';
  if (isSigned || ports.policies().policy.allowsUnsigned) return ok(null);
  const { catalog } = ports.library.capabilities();
  const beyond = rights.output.grants.filter(
    ({ capability }) => catalog.get(capability)?.tier !== 'read',
  );
  const names = [...new Set(beyond.map(({ capability }) => capability))];
  if (names.length === 0) return ok(null);
  return fail(
    'permission_denied',
    `directive \`${item.id}\` is not signed and cannot have ${names.join(', ')}; sign it, or set \`unsigned: allow\` in the user-level policy`,
    {
      missing: names[0] ?? '',
      missing_all: names,
      unsigned: item.id,
      file: pathWithin(ports.project, item.file),
    },
  );
}

/** Placeholder for the model of a script, which asks none. */
const NO_MODEL: { model: ResolvedModel; price: Price } = {
  model: {
    model: 'none',
    provider: 'none',
    protocol: 'anthropic',
    provider_tool: '',
    plain_tool: '',
  },
  price: {
    model: 'none',
    row: 'none',
    input: 0n,
    output: 0n,
    cache_read: 0n,
    cache_write: 0n,
    free: true,
    currency: 'USD',
  },
};

function ownModel(ports: PreparePorts, { model }: Directive): Outcome<ResolvedModel> {
  const { tier, model_id } = model ?? {};
  const own = { ...(tier !== undefined && { tier }), ...(model_id !== undefined && { model_id }) };
  return resolveModel(ports.models(), own);
}

function chooseModel(
  ports: PreparePorts,
  directive: Directive,
  tier: string | undefined,
  limits: EffectiveLimits,
): Outcome<{ model: ResolvedModel; price: Price }> {
  if (directive.process.script) return ok(NO_MODEL);
  const model =
    tier === undefined ? readyModel(ports, ownModel(ports, directive)) : modelFor(ports, tier);
  return priced(ports, model, limits);
}

/** Returns the plan mode of the request or of the directive. A request cannot turn off the directive's mode. */
function planOf(
  { id }: DirectiveItem,
  { process: { mode, script } }: Directive,
  requested: RunRequest['plan'] = false,
): Outcome<Pick<Prepared, 'plan'>> {
  if (requested === false && mode !== 'plan') return ok({});
  if (!script) return ok({ plan: requested === 'check' ? 'check' : 'run' });
  if (requested === false) return ok({});
  const message = `directive \`${id}\` is a script, which cannot be planned`;
  return fail('invalid_input', message);
}

/** Fails for a script and for a planned directive, because no model continues their conversation. */
function mayTalk(
  { id }: DirectiveItem,
  { process: { mode, script } }: Directive,
  { chat, plan = false }: RunRequest,
): Outcome<null> {
  const kind = script ? 'a script' : mode === 'plan' || plan !== false ? 'planned' : undefined;
  if (!chat || kind === undefined) return ok(null);
  return fail(
    'invalid_input',
    `directive \`${id}\` is ${kind}, which holds no conversation; run it as a thread`,
  );
}

/** Compiles the hooks. Fails if one of them could not run later, when it is needed. */
function readyHooks(
  ports: PreparePorts,
  item: DirectiveItem,
  directive: Directive,
): Outcome<readonly CompiledHook[]> {
  const { hooks } = directive;
  for (const hook of hooks) {
    const found = ports.library.find('directive', hook.directive);
    const broken = found.ok && !found.output.directive ? 'it has errors' : undefined;
    const problem = found.ok
      ? broken === undefined && hookProblem(ports, directive, hook, found.output)
      : { message: found.error.detail.message, hint: undefined };
    if (broken === undefined && !problem) continue;
    const { message: why = broken, hint } = problem || {};
    const message = `a hook of \`${item.id}\` runs \`${hook.directive}\`: ${why}`;
    const about = { hook: hook.directive, line: hook.line, ...(hint !== undefined && { hint }) };
    return fail('invalid_item', message, about);
  }
  return compileHooks(hooks);
}

/** Returns the problem of a hook's inputs or rights; `undefined` if the hook can run. */
function hookProblem(
  ports: PreparePorts,
  directive: Directive,
  hook: Directive['hooks'][number],
  { directive: found }: DirectiveItem,
): ReturnType<typeof hookProblems>[number] | undefined {
  if (!found) return undefined;
  const target = withExtended(ports, found);
  const [own, needed] = [declaredRights(ports, directive), declaredRights(ports, target)];
  const isKnown = own.ok && needed.ok && target.hooks.length === 0;
  const { missing } = isKnown
    ? missingAtStart(needed.output.grants, own.output.grants, ports.library.capabilities().catalog)
    : { missing: [] };
  return hookProblems(hook, target, missing)[0];
}

/**
 * Returns the faults that prevent every run of this directive: signature, limits, model, price. Errors of the file
 * and a missing key of the provider are left out, because other checks report them.
 */
export function refusalsOf(ports: PreparePorts, item: DirectiveItem): Fault[] {
  const found = findDirective(ports, item.id);
  if (!found.ok || canSpawn(found.output.directive).missing.length > 0) return [];
  const { directive } = found.output;
  const limits = directiveLimits(ports.library, ports.policies().policy.limits, directive, {});
  const own = ownModel(ports, directive);
  const key = own.ok ? own.output.key_variable : undefined;
  const env = { ...ports.env, ...(key !== undefined && { [key]: 'set' }) };
  const model = limits.ok
    ? chooseModel({ ...ports, env }, directive, undefined, limits.output)
    : limits;
  return [checkPermissions(ports, item, directive), model].flatMap((one) =>
    one.ok ? [] : [one.error],
  );
}

/** Reads the attachments of a run. */
async function filesOf(
  ports: PreparePorts,
  { item, directive }: Pick<Prepared, 'item' | 'directive'>,
  { attach = [] }: RunRequest,
  model: ResolvedModel,
): Promise<Outcome<readonly ReadyFile[]>> {
  if (attach.length === 0) return ok([]);
  if (directive.process.script) {
    return fail(
      'invalid_input',
      `directive \`${item.id}\` is a script, which takes no attachments`,
    );
  }
  return await readAttachments(ports, attach, model);
}

export async function prepareThread(
  ports: PreparePorts,
  request: RunRequest,
  left?: LimitsLeft,
): Promise<Outcome<Prepared>> {
  await ports.library.refresh();
  const found = findDirective(ports, request.directive);
  if (!found.ok) return found;
  const { item, directive } = found.output;
  const { by } = request;
  const may = by ? mayStart(ports, by.surface, request.directive) : ok(null);
  if (!may.ok) return may;
  const { missing } = canSpawn(directive);
  if (missing.length > 0) {
    const tags = missing.map((name) => `<${name}>`).join(' and ');
    const message = `directive \`${item.id}\` cannot run as a thread: it has no ${missing.join(', no ')}; add ${tags} to its metadata`;
    return fail('invalid_item', message, { missing: [...missing] });
  }
  const inputs = checkInputs(directive, request.inputs ?? {});
  if (!inputs.ok) return inputs;
  const signed = checkPermissions(ports, item, directive);
  if (!signed.ok) return signed;
  const planned = planOf(item, directive, request.plan);
  if (!planned.ok) return planned;
  const talk = mayTalk(item, directive, request);
  if (!talk.ok) return talk;
  const rules = compileRules(rulesOf(directive, ports.project));
  if (!rules.ok) return rules;
  const hooks = readyHooks(ports, item, directive);
  if (!hooks.ok) return hooks;
  const { limits: caller, stream } = request;
  const more = { ...(caller && { caller }), ...(left && { left }) };
  const { policy } = ports.policies();
  const limits = directiveLimits(ports.library, policy.limits, directive, more);
  if (!limits.ok) return limits;
  const chosen = chooseModel(ports, directive, request.model, limits.output);
  if (!chosen.ok) return chosen;
  const files = await filesOf(ports, found.output, request, chosen.output.model);
  if (!files.ok) return files;
  return ok({
    id: `${request.directive.startsWith(SHIPPED) ? SHIPPED : ''}${item.id}`,
    item,
    directive,
    inputs: inputs.output,
    hooks: hooks.output,
    ...chosen.output,
    limits: compactionLimits(limits.output, directive, planned.output),
    ...(stream && { stream }),
    ...(request.mode && { mode: request.mode }),
    ...planned.output,
    ...(files.output.length > 0 && { files: files.output }),
  });
}

/** Returns the limits without compaction if no model holds a conversation. */
function compactionLimits(
  limits: EffectiveLimits,
  { process: { script } }: Directive,
  { plan }: Pick<Prepared, 'plan'>,
): EffectiveLimits {
  const from = script ? 'script' : plan && 'plan';
  if (!from) return limits;
  return { ...limits, context_compact: { ...limits.context_compact, value: 'off', from } };
}
