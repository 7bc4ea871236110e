// What the author of a tool decides and its caller must not: which code runs, and who is sent the
// author's secrets. Both are compared after parameters were filled in.
import { type Failure, fail, getOwn, type JsonObject } from '../base/index.ts';
import type { Plan } from './chain.ts';

/** Up to the first `/`, `?` or `#` after the scheme: everything that decides where it goes. */
const AUTHORITY = /^[^/?#]*(?:\/\/[^/?#]*)?/;
const PLACEHOLDER = /(?<!\$)\{\s*([A-Za-z_]\w*)\s*\}/g;

/** Parameters that can decide about the host of a URL. */
function namesInHost(url: string): string[] {
  const deciding = AUTHORITY.exec(url)?.[0] ?? '';
  return [...deciding.matchAll(PLACEHOLDER)].map(([, name = '']) => name);
}

/** Out of a list the author wrote, or declared as a destination: then rules over origins hold. */
function isDeclaredChoice(plan: Plan, name: string): boolean {
  const parameter = plan.parameters.find((each) => each.name === name);
  return parameter?.enum !== undefined || parameter?.role === 'destination';
}

/** Why a call is refused whose parameters decide too much; undefined when they do not. */
export function chosenByCaller(
  plan: Plan,
  filled: { config: JsonObject; secrets: readonly string[] },
): Failure | undefined {
  const { id } = plan.leaf;
  for (const field of ['module', 'runtime', 'shell']) {
    if (getOwn(plan.config, field) === getOwn(filled.config, field)) continue;
    return fail(
      'config_invalid',
      `tool \`${id}\` lets a parameter choose \`config.${field}\`, which no signature could cover; write it out`,
      { config_path: `config.${field}` },
    );
  }
  const url = getOwn(plan.config, 'url');
  if (filled.secrets.length === 0 || typeof url !== 'string') return undefined;
  const name = namesInHost(url).find((each) => !isDeclaredChoice(plan, each));
  if (name === undefined) return undefined;
  return fail(
    'config_invalid',
    `tool \`${id}\` would send a secret to a host that its parameter \`${name}\` chooses; end the host with \`/\`, or give the parameter an \`enum\` or \`role: destination\``,
    { config_path: 'config.url' },
  );
}
