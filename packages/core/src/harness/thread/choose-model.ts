// Chooses the model of a thread and its price, also the fallback after a failure.
import { fail, getOwn, type Outcome, ok } from '../../base/index.ts';
import { type ResolvedModel, resolveModel } from '../../llm/index.ts';
import type { EffectiveLimits } from '../limits/limit.ts';
import type { PreparePorts, Talk, Thread } from './thread.ts';

/** Returns a model with its price. Fails if it has no price of its own and a spend limit is declared. */
export function priced(
  ports: PreparePorts,
  resolved: Outcome<ResolvedModel>,
  limits: EffectiveLimits,
): Outcome<Pick<Talk, 'model' | 'price'>> {
  if (!resolved.ok) return resolved;
  const { model, price_id } = resolved.output;
  const prices = ports.prices();
  const first = prices.find(price_id ?? model);
  const found = first.ok ? first : prices.find(model);
  const price = found.ok ? found.output : prices.default();
  if (!price || (!found.ok && limits.spend?.declared)) {
    return fail(
      'model_unavailable',
      `model \`${model}\` has no price, and a spend limit needs one; add it to \`.ai/config/pricing.yaml\`, or a local model with \`free: true\` to your own \`config/pricing.yaml\``,
      { model },
    );
  }
  return ok({ model: resolved.output, price });
}

/** Resolves the name of a tier, or the id of a model if no tier has this name. */
export function modelFor(ports: PreparePorts, choice: string): Outcome<ResolvedModel> {
  const tiers = getOwn(ports.models(), 'tiers');
  const isTier = getOwn(tiers, choice) !== undefined;
  return readyModel(
    ports,
    resolveModel(ports.models(), isTier ? { tier: choice } : { model_id: choice }),
  );
}

/** Returns the model. Fails if a policy does not allow it or its key is not set. */
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

/** Changes the model for the rest of the run. `choice`: `fallback`, a tier or a model id. */
export function switchModel({ ports, talk, budget }: ModelUser, choice: string): Outcome<null> {
  const name = choice === 'fallback' ? (talk.fallback ?? talk.model.fallback) : choice;
  if (name === undefined) return fail('model_unavailable', 'no fallback model is configured');
  const chosen = priced(ports, modelFor(ports, name), budget.limits);
  if (!chosen.ok) return chosen;
  Object.assign(talk, chosen.output, { areSealsDropped: false });
  return ok(null);
}
