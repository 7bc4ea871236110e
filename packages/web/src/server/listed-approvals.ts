// Builds the approval requests that lists and the review show. The runtime supplies the facts. The
// content of `shown` comes from a model or a tool and is untrusted.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  masked,
  type Outcome,
  ok,
  plainText,
} from '@kernmantle/core/base';
import { approvalDigest } from '@kernmantle/core/runtime';
import type { Approval, Store, ThreadRow } from '@kernmantle/core/store';
import { type Grant, grantName } from '@kernmantle/core/trust';
import type { DataObject, ListedApproval } from '../model/api.ts';

const MAX_TITLE = 200;

/** Masks secrets in all texts and keys of a value. Its structure stays the same. */
export function maskedJson(value: Json): Json {
  if (typeof value === 'string') return masked(value);
  if (Array.isArray(value)) return value.map(maskedJson);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [masked(name), maskedJson(inner)]),
  );
}

/** Capability and scope of the request. The scope is in the form of the registry. */
export function grantIn({ binding }: Approval): Grant {
  const { scope } = binding;
  const fields = isObject(scope)
    ? Object.entries(scope).map(([name, value]) => [name, plainText(value)])
    : [];
  return {
    capability: plainText(binding.capability),
    ...(fields.length > 0 && { scope: Object.fromEntries(fields) }),
  };
}

/** Name of a right, such as `fs.read notes/**`, `net.http GET api.example.com` or `tool.bash`. */
export function rightName({ capability, scope = {} }: Grant): string {
  const { path, host, method, subtree, id } = scope;
  const places = [method, host, path, subtree === 'any' ? 'any thread' : undefined];
  const name = grantName({ capability, scope });
  const ids = capability === 'tool.execute' && id !== undefined ? [] : [id];
  return [name, ...places, ...ids].filter((part) => part !== undefined).join(' ');
}

/** Title of a request: its tool and target, its right, its limits or its question. */
function titleOf(approval: Approval): string {
  const { kind, shown } = approval;
  const word = (name: string): string => plainText(shown[name] ?? '');
  if (kind === 'capability') return rightName(grantIn(approval));
  if (kind === 'limit') return `limit ${Object.keys(limitsIn(shown)).join(', ')}`;
  if (kind === 'question') return word('question') || 'a question';
  if (word('action') === 'anneal') return `change directive ${word('directive')}`;
  const places = word('target') === '' ? steering(shown) : [word('target')];
  return [word('operation').replace(/^tool /, ''), ...places].join(' ').trim();
}

/** Values of the arguments that steer the call. */
const steering = ({ roles, arguments: args }: JsonObject): string[] =>
  Object.keys(isObject(roles) ? roles : {}).map((name) => plainText(getOwn(args, name) ?? ''));

export const limitsIn = (shown: JsonObject): JsonObject =>
  isObject(shown.limits) ? shown.limits : {};

const cut = (text: string): string =>
  text.length > MAX_TITLE ? `${text.slice(0, MAX_TITLE - 1)}…` : text;

function ruleOf({ asked_by }: JsonObject): { rule?: string } {
  const rules = Array.isArray(asked_by) ? asked_by.map(plainText).filter(Boolean) : [];
  // Removes backticks, because the name is not part of a message.
  return rules.length === 0 ? {} : { rule: cut(rules.join(', ').replaceAll('`', '')) };
}

/** Builds the entry of one approval. Without a thread its epoch is 0. */
export function listedApproval(
  approval: Approval,
  { epoch = 0, title }: Partial<Pick<ThreadRow, 'epoch' | 'title'>> = {},
): ListedApproval {
  const { id, kind, state, thread, shown, uses, asked, expires, decided, who, channel, why } =
    approval;
  const directive = getOwn(shown, 'directive');
  return {
    id,
    kind,
    state,
    title: cut(masked(titleOf(approval))),
    shown: maskedJson(shown) as DataObject,
    uses,
    asked,
    ...ruleOf(shown),
    ...(thread !== undefined && { thread }),
    ...(title !== undefined && { thread_title: title }),
    ...(typeof directive === 'string' && { directive }),
    ...(expires !== undefined && { expires }),
    ...(decided !== undefined && { decided }),
    ...(who !== undefined && { who }),
    ...(channel !== undefined && { channel }),
    ...(why !== undefined && why !== '' && { why: masked(why) }),
    ...approvalDigest(approval, epoch),
  };
}

/** Builds entries whose digest covers the epoch of the thread. A pruned thread has epoch 0. */
export async function listedApprovals(
  store: Pick<Store, 'thread'>,
  approvals: readonly Approval[],
): Promise<Outcome<ListedApproval[]>> {
  const rows = new Map<string, ThreadRow | undefined>();
  for (const { thread } of approvals) {
    if (thread === undefined || rows.has(thread)) continue;
    const row = await store.thread(thread);
    if (!row.ok && row.error.code !== 'not_found') return row;
    rows.set(thread, row.ok ? row.output : undefined);
  }
  return ok(approvals.map((one) => listedApproval(one, rows.get(one.thread ?? ''))));
}
