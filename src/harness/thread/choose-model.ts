// Which model is asked and what it costs; another one when that fails or somebody wants it.
import { fail, getOwn, type Outcome, ok } from '../../base/index.ts';
import { type Price, type ResolvedModel, resolveModel } from '../../llm/index.ts';
import type { EffectiveLimits } from '../limits/limit.ts';
import type { PreparePorts, Thread } from './thread.ts';

/** The price of a model; an unknown one is refused when somebody declared a spend limit. */
export function priceFor(
  ports: PreparePorts,
  model: string,
  limits: EffectiveLimits,
): Outcome<Price> {
  const found = ports.prices().find(model);
  if (found.ok) return found;
  const fallback = ports.prices().default();
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
export function modelFor(ports: PreparePorts, wanted: string): Outcome<ResolvedModel> {
  const tiers = getOwn(ports.models(), 'tiers');
  const isTier = getOwn(tiers, wanted) !== undefined;
  return withKey(
    ports,
    resolveModel(ports.models(), isTier ? { tier: wanted } : { model_id: wanted }),
  );
}

export function withKey(
  ports: PreparePorts,
  model: Outcome<ResolvedModel>,
): Outcome<ResolvedModel> {
  if (!model.ok) return model;
  const name = model.output.key_variable;
  if (name === undefined || ports.env[name]) return model;
  return fail(
    'model_unavailable',
    `provider \`${model.output.provider}\` needs a key: set \`${name}\`, or choose another model with \`--model\``,
    { provider: model.output.provider, variable: name },
  );
}

/** `fallback`, a tier or a model id, for the rest of the talk. */
export function switchModel({ ports, talk, budget }: Thread, wanted: string): Outcome<null> {
  const name = wanted === 'fallback' ? (talk.fallback ?? talk.model.fallback) : wanted;
  if (name === undefined) return fail('model_unavailable', 'there is no fallback model');
  const model = modelFor(ports, name);
  if (!model.ok) return model;
  const price = priceFor(ports, model.output.model, budget.limits);
  if (!price.ok) return price;
  [talk.model, talk.price] = [model.output, price.output];
  return ok(null);
}
