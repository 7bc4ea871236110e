// Chooses the model of a thread and its price, also the fallback after a failure.
import { fail, getOwn, type Outcome, ok } from '../../base/index.ts';
import { type ResolvedModel, resolveModel } from '../../llm/index.ts';
import type { EffectiveLimits } from '../limits/limit.ts';
import type { PreparePorts, Talk, Thread } from './thread.ts';

/** With its price; a model without one is refused when somebody declared a spend limit. */
export function priced(
  ports: PreparePorts,
  resolved: Outcome<ResolvedModel>,
  limits: EffectiveLimits,
): Outcome<Pick<Talk, 'model' | 'price'>> {
  if (!resolved.ok) return resolved;
  const { model } = resolved.output;
  const found = ports.prices().find(model);
  const price = found.ok ? found.output : ports.prices().default();
  if (!price || (!found.ok && limits.spend?.declared)) {
    return fail(
      'model_unavailable',
      `there is no price for model \`${model}\`, and a spend limit needs one; add it to \`.ai/config/pricing.yaml\`, or a local model with \`free: true\` to your own \`config/pricing.yaml\``,
      { model },
    );
  }
  return ok({ model: resolved.output, price });
}

/** A tier, or else the id of a model. */
export function modelFor(ports: PreparePorts, wanted: string): Outcome<ResolvedModel> {
  const tiers = getOwn(ports.models(), 'tiers');
  const isTier = getOwn(tiers, wanted) !== undefined;
  return readyModel(
    ports,
    resolveModel(ports.models(), isTier ? { tier: wanted } : { model_id: wanted }),
  );
}

/** A model that every policy leaves and whose key is there. */
export function readyModel(
  ports: PreparePorts,
  model: Outcome<ResolvedModel>,
): Outcome<ResolvedModel> {
  if (!model.ok) return model;
  const allowed = ports.policies().policy.allowsModel(model.output.model);
  if (!allowed.ok) return allowed;
  const name = model.output.key_variable;
  if (name === undefined || ports.env[name]) return model;
  return fail(
    'model_unavailable',
    `provider \`${model.output.provider}\` needs a key: set \`${name}\`, or choose another model`,
    { provider: model.output.provider, variable: name },
  );
}

/** The model of a thread, and the limits that its price must satisfy. */
export type ModelUser = Pick<Thread, 'ports' | 'talk' | 'budget'>;

/** `fallback`, a tier or a model id, for the rest of the talk. */
export function switchModel({ ports, talk, budget }: ModelUser, wanted: string): Outcome<null> {
  const name = wanted === 'fallback' ? (talk.fallback ?? talk.model.fallback) : wanted;
  if (name === undefined) return fail('model_unavailable', 'there is no fallback model');
  const chosen = priced(ports, modelFor(ports, name), budget.limits);
  if (!chosen.ok) return chosen;
  Object.assign(talk, chosen.output);
  return ok(null);
}
