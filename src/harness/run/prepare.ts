// Everything that must be right before a thread exists: directive, inputs, rights, model, key, price,
// limits. All of it is looked at first, so that a refusal leaves nothing half-made behind.
import { type Failure, fail, getOwn, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import {
  canSpawn,
  type Directive,
  type DirectiveItem,
  type DirectiveLimits,
  resolveExtends,
} from '../../items/index.ts';
import { checkInputs } from '../../kernel/index.ts';
import { type Price, type ResolvedModel, resolveModel } from '../../llm/index.ts';
import { type CompiledHook, compileHooks } from '../hooks/select-hook.ts';
import { directiveLimits, type LimitSources } from '../limits/effective-limits.ts';
import type { EffectiveLimits } from '../limits/limit.ts';
import { declaredRights } from '../rights/thread-token.ts';
import type { World } from '../thread/ports.ts';

export interface RunRequest {
  directive: string;
  inputs?: JsonObject;
  /** What the person says besides. */
  message?: string;
  /** A tier or a model id instead of the directive's. */
  model?: string;
  /** Narrows the directive's limits. */
  limits?: DirectiveLimits;
  /** Keeps what the provider sends, event by event, in `stream.jsonl` of the thread. */
  stream?: boolean;
}

export interface Prepared {
  item: DirectiveItem;
  directive: Directive;
  inputs: JsonObject;
  hooks: readonly CompiledHook[];
  model: ResolvedModel;
  price: Price;
  limits: EffectiveLimits;
  stream?: boolean;
}

/** What is looked at before a thread exists: no registry, no key of our own. */
export type PrepareWorld = Pick<
  World,
  'project' | 'library' | 'policies' | 'prices' | 'models' | 'env'
>;

export type LimitsLeft = NonNullable<LimitSources['left']>;

function findDirective(
  world: PrepareWorld,
  name: string,
): Outcome<{ item: DirectiveItem; directive: Directive }> {
  const found = world.library.find('directive', name);
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
    const place = first ? `${first.file}:${first.line}:${first.column}: ${first.message}` : '';
    return fail('invalid_item', `directive \`${item.id}\` has errors: ${place}; see \`km check\``);
  }
  const below = (other: string): Directive | undefined => {
    const one = world.library.find('directive', other);
    return one.ok ? one.output.directive : undefined;
  };
  return ok({ item, directive: resolveExtends(item.directive, below) });
}

/** An unsigned directive runs with read rights only; asking for more is refused before it starts. */
function checkSigned(
  world: PrepareWorld,
  item: DirectiveItem,
  directive: Directive,
): Outcome<null> {
  const isSigned = item.signature.state !== 'unsigned';
  if (isSigned || world.policies().policy.allowsUnsigned) return ok(null);
  const rights = declaredRights(directive, world.library, world.project);
  if (!rights.ok) return rights;
  const { catalog } = world.library.capabilities();
  const beyond = rights.output.grants.filter(
    ({ capability }) => catalog.get(capability)?.tier !== 'read',
  );
  const names = [...new Set(beyond.map(({ capability }) => capability))];
  if (names.length === 0) return ok(null);
  return fail(
    'permission_denied',
    `directive \`${item.id}\` is not signed, so it may not have ${names.join(', ')}: sign it (\`km sign ${item.file}\`) or set \`unsigned: allow\` in the user-level policy`,
    { missing: names[0] ?? '', missing_all: names, unsigned: item.id },
  );
}

/** The price of a model; an unknown one is refused when somebody declared a spend limit. */
export function priceFor(
  world: PrepareWorld,
  model: string,
  limits: EffectiveLimits,
): Outcome<Price> {
  const found = world.prices().find(model);
  if (found.ok) return found;
  const fallback = world.prices().default();
  if (limits.spend?.declared || !fallback) {
    return fail(
      'model_unavailable',
      `there is no price for model \`${model}\`, and a spend limit needs one; add it to \`.ai/config/pricing.yaml\`, or a local model with \`free: true\` to your own \`config/pricing.yaml\``,
      { model },
    );
  }
  return ok(fallback);
}

/** A tier, or else the id of a model. */
export function modelFor(world: PrepareWorld, wanted: string): Outcome<ResolvedModel> {
  const tiers = getOwn(world.models(), 'tiers');
  const isTier = getOwn(tiers, wanted) !== undefined;
  return withKey(
    world,
    resolveModel(world.models(), isTier ? { tier: wanted } : { model_id: wanted }),
  );
}

function withKey(world: PrepareWorld, model: Outcome<ResolvedModel>): Outcome<ResolvedModel> {
  if (!model.ok) return model;
  const name = model.output.key_variable;
  if (name === undefined || world.env[name]) return model;
  return fail(
    'model_unavailable',
    `provider \`${model.output.provider}\` needs a key: set \`${name}\`, or choose another model with \`--model\``,
    { provider: model.output.provider, variable: name },
  );
}

const noThread = (item: DirectiveItem, missing: readonly string[]): Failure =>
  fail(
    'invalid_item',
    `directive \`${item.id}\` cannot run as a thread: it has no ${missing.join(', no ')}; add ${missing.map((name) => `<${name}>`).join(' and ')} to its metadata`,
    { missing: [...missing] },
  );

/** Stands where a script runs and no model is asked. */
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

function chooseModel(
  world: PrepareWorld,
  directive: Directive,
  asked: string | undefined,
  limits: EffectiveLimits,
): Outcome<{ model: ResolvedModel; price: Price }> {
  if (directive.process.script) return ok(NO_MODEL);
  const { tier, model_id } = directive.model ?? {};
  const own = {
    ...(tier === undefined ? {} : { tier }),
    ...(model_id === undefined ? {} : { model_id }),
  };
  const model =
    asked === undefined
      ? withKey(world, resolveModel(world.models(), own))
      : modelFor(world, asked);
  if (!model.ok) return model;
  const price = priceFor(world, model.output.model, limits);
  return price.ok ? ok({ model: model.output, price: price.output }) : price;
}

/** A hook that could not run when it is needed is found before anything is begun. */
function readyHooks(
  world: PrepareWorld,
  item: DirectiveItem,
  { hooks }: Directive,
): Outcome<readonly CompiledHook[]> {
  for (const { directive: name, line } of hooks) {
    const found = world.library.find('directive', name);
    const target = found.ok ? found.output.directive : undefined;
    if (target?.outputs.some((output) => output.name === 'action')) continue;
    const why = found.ok ? 'declares no output `action`' : found.error.detail.message;
    return fail('invalid_item', `a hook of \`${item.id}\` runs \`${name}\`: ${why}`, {
      hook: name,
      line,
    });
  }
  return compileHooks(hooks);
}

export async function prepareThread(
  world: PrepareWorld,
  request: RunRequest,
  left?: LimitsLeft,
): Promise<Outcome<Prepared>> {
  await world.library.refresh();
  const found = findDirective(world, request.directive);
  if (!found.ok) return found;
  const { item, directive } = found.output;
  const { missing } = canSpawn(directive);
  if (missing.length > 0) return noThread(item, missing);
  const inputs = checkInputs(directive, request.inputs ?? {});
  if (!inputs.ok) return inputs;
  const signed = checkSigned(world, item, directive);
  if (!signed.ok) return signed;
  const hooks = readyHooks(world, item, directive);
  if (!hooks.ok) return hooks;
  const limits = directiveLimits(world.library, world.policies().policy.limits, directive, {
    ...(request.limits ? { caller: request.limits } : {}),
    ...(left ? { left } : {}),
  });
  if (!limits.ok) return limits;
  const chosen = chooseModel(world, directive, request.model, limits.output);
  if (!chosen.ok) return chosen;
  return ok({
    item,
    directive,
    inputs: inputs.output,
    hooks: hooks.output,
    ...chosen.output,
    limits: limits.output,
    ...(request.stream === true ? { stream: true } : {}),
  });
}
