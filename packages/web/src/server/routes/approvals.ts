// Routes for approval requests: list, review, decision. INVARIANT: a decision always applies to the content
// that the person saw. The client sends its digest, and the server computes the digest again before
// it decides. A request that has changed, was decided or has expired is a conflict.
import { compact, fail, type Outcome, ok } from '@kernmantle/core/base';
import { decideApproval, isFileChanged, personAuditRow } from '@kernmantle/core/runtime';
import type { Approval, Decision, Store } from '@kernmantle/core/store';
import { parseThreadId } from '@kernmantle/core/store';
import type { Context } from 'hono';
import type { ApprovalList, DecisionRequest, ListedApproval } from '../../model/api.ts';
import { answer } from '../answer.ts';
import type { AddRoutes, ApiEnv, WebCaller, WebParts } from '../context.ts';
import { listedApprovals } from '../listed-approvals.ts';
import { needs } from '../roles.ts';
import { speakerOf } from '../runs.ts';
import { reviewApproval, reviewedArgument } from '../thread/approval-review.ts';
import { textPiece } from '../thread/text-piece.ts';
import { createOnce } from './idempotency.ts';
import { readCount, readQuery, readWish } from './request-bodies.ts';

const STATES: readonly Approval['state'][] = ['pending', 'approved', 'denied', 'expired', 'used'];
const MAX_LISTED = 500;
const MAX_READ = 100_000;
const MAX_OFFSET = 1e9;
const ID = /^[A-Za-z0-9_-]{1,80}$/;

async function listOf(
  { hub, store }: WebParts,
  context: Context<ApiEnv>,
): Promise<Outcome<ApprovalList>> {
  const query = readQuery(context, ['state', 'thread']);
  if (!query.ok) return query;
  const { state = 'pending', thread } = query.output;
  const status = STATES.find((one) => one === state);
  if (status === undefined && state !== 'all' && state !== 'decided') {
    return fail('invalid_input', `\`state\` must be one of ${STATES.join(', ')}, decided, all`);
  }
  const id = thread === undefined ? ok(undefined) : parseThreadId(thread);
  if (!id.ok) return id;
  const position = hub.position();
  const opened = await store();
  if (!opened.ok) {
    return opened.error.code === 'not_found' ? ok({ approvals: [], position }) : opened;
  }
  const filter = compact<Parameters<Store['approvals']>[0]>({
    state: status,
    thread: id.output,
    limit: MAX_READ,
  });
  const rows = await opened.output.approvals(filter);
  if (!rows.ok) return rows;
  const matching = rows.output.filter((row) => state !== 'decided' || row.state !== 'pending');
  const listed = await listedApprovals(opened.output, matching.slice(-MAX_LISTED));
  return listed.ok ? ok({ approvals: listed.output, position }) : listed;
}

async function findApproval(
  { store }: Pick<WebParts, 'store'>,
  context: Context<ApiEnv>,
): Promise<Outcome<{ store: Store; approval: Approval }>> {
  const id = context.req.param('id') ?? '';
  if (!ID.test(id)) return fail('invalid_input', 'the id of the approval request is not valid');
  const opened = await store();
  if (!opened.ok) return opened;
  const rows = await opened.output.approvals({ id });
  if (!rows.ok) return rows;
  const [approval] = rows.output;
  return approval
    ? ok({ store: opened.output, approval })
    : fail('not_found', `approval \`${id}\` not found`, { approval: id });
}

const refuse = (message: string, field: string): Outcome<never> =>
  fail('invalid_input', message, { field });

/** Translates a decision for the registry. A decision that does not fit the kind of request is refused. */
function decisionOf(
  { kind }: Approval,
  request: DecisionRequest,
  now: number,
): Outcome<Pick<Decision, 'decision' | 'answer' | 'uses' | 'expires'>> {
  const { decision, uses, for_seconds: seconds, glob, beyond, answer: words } = request;
  if (decision !== 'scope' && (uses !== undefined || seconds !== undefined)) {
    return refuse('`uses` and `for_seconds` are valid only for the decision `scope`', 'uses');
  }
  if (words !== undefined && decision !== 'answer') {
    return refuse('`answer` is valid only for the decision `answer`', 'answer');
  }
  if (beyond !== undefined && (kind !== 'capability' || decision === 'deny')) {
    return refuse('`beyond` is valid only for the approval of a right', 'beyond');
  }
  if (decision === 'deny') return ok({ decision: 'denied' });
  if (decision === 'answer') {
    return words === undefined
      ? refuse('`answer` is required', 'answer')
      : ok({ decision: 'approved', answer: words });
  }
  if (kind === 'question') return refuse('the decision must be `answer` or `deny`', 'decision');
  if (decision === 'scope' && kind !== 'capability' && kind !== 'call') {
    return refuse(`a request for a ${kind} cannot have the decision \`scope\``, 'decision');
  }
  if ((glob !== undefined) !== (decision === 'scope' && kind === 'call')) {
    return refuse('`glob` is required for the scope of a call, and valid only there', 'glob');
  }
  if (decision === 'value') return ok({ decision: 'approved', answer: { value: true } });
  const wide = glob === undefined ? {} : { answer: { scope: glob } };
  const extra = beyond === true ? { answer: { beyond } } : wide;
  if (decision === 'once') {
    return ok({ decision: 'approved', ...extra, ...(kind === 'capability' && { uses: 1 }) });
  }
  const expires = seconds === undefined ? undefined : now + seconds * 1000;
  return ok({
    decision: 'approved',
    ...extra,
    ...(uses !== undefined && { uses }),
    ...(expires !== undefined && { expires }),
  });
}

/** Writes an audit row if the request differs from the one that the person saw. */
async function conflict(
  store: Store,
  { id, state, thread = '' }: Approval,
  { decision }: DecisionRequest,
  asker: WebCaller,
  message: string,
): Promise<Outcome<never>> {
  const act = decision === 'deny' || decision === 'answer' ? decision : 'approve';
  const row = personAuditRow(speakerOf(asker), `${act}:${id}`, thread, `conflict: ${message}`);
  await store.audit([{ ...row, decision: 'failed' }]);
  return fail('conflict', message, { approval: id, state });
}

async function decide(
  { runs, clock }: WebParts,
  store: Store,
  approval: Approval,
  request: DecisionRequest,
  asker: WebCaller,
): Promise<Outcome<ListedApproval>> {
  const { id, state, thread } = approval;
  if (state !== 'pending') {
    const message = `approval \`${id}\` is already ${state}`;
    return await conflict(store, approval, request, asker, message);
  }
  const current = await listedApprovals(store, [approval]);
  if (!current.ok) return current;
  if (current.output[0]?.digest !== request.digest) {
    const message = `approval \`${id}\` has changed; read it again`;
    return await conflict(store, approval, request, asker, message);
  }
  const choice = decisionOf(approval, request, clock.now());
  if (!choice.ok) return choice;
  const { why = '', digest } = request;
  const by = speakerOf(asker);
  const decision = { ...choice.output, why, by, digest };
  const result = await decideApproval(store, id, decision, request.decision === 'answer');
  if (!result.ok) {
    // The thread resumes and asks again with the current content.
    if (thread !== undefined && isFileChanged(result)) runs.askAgain(thread);
    return result;
  }
  if (thread !== undefined) runs.decided(thread);
  const listed = await listedApprovals(store, [result.output]);
  if (!listed.ok) return listed;
  const [row] = listed.output;
  return row ? ok(row) : fail('not_found', `approval \`${id}\` not found`, { approval: id });
}

export const addApprovalsRoutes: AddRoutes = (api, parts) => {
  const once = createOnce();
  api.get('/approvals', needs('view'), async (context) =>
    answer(context, await listOf(parts, context)),
  );
  api.get('/approvals/:id', needs('view'), async (context) => {
    const query = readQuery(context, []);
    const hit = query.ok ? await findApproval(parts, context) : query;
    if (!hit.ok) return answer(context, hit);
    return answer(context, await reviewApproval(parts, hit.output.store, hit.output.approval));
  });
  api.get('/approvals/:id/argument', needs('view'), async (context) => {
    const query = readQuery(context, ['name', 'offset']);
    if (!query.ok) return answer(context, query);
    const offset = readCount(query.output.offset, { name: 'offset', max: MAX_OFFSET });
    if (!offset.ok) return answer(context, offset);
    const target = await findApproval(parts, context);
    if (!target.ok) return answer(context, target);
    const { store, approval } = target.output;
    const text = await reviewedArgument(parts, store, approval, query.output.name ?? '');
    return answer(context, text.ok ? ok(textPiece(text.output, offset.output)) : text);
  });
  api.post('/approvals/:id/decision', needs('approve'), (context) =>
    once(context, async () => {
      const query = readQuery(context, []);
      if (!query.ok) return query;
      const request = await readWish(context, 'decision');
      if (!request.ok) return request;
      const target = await findApproval(parts, context);
      if (!target.ok) return target;
      const { store, approval } = target.output;
      return await decide(parts, store, approval, request.output, context.get('asker'));
    }),
  );
};
