// Returns the audit row of a model request: the caller, the model, the usage and the outcome. The row has no
// text of the conversation; the journal has that, sealed.
import type { Outcome } from '../../base/index.ts';
import type { AuditRow } from '../../kernel/index.ts';
import { formatMoney, type ModelReply } from '../../llm/index.ts';
import type { Amounts } from '../../store/index.ts';
import type { Lineage, Talk } from '../thread/thread.ts';

interface RequestFacts {
  outcome: Outcome<unknown>;
  reply: ModelReply | undefined;
  /** Amounts that were charged. Empty if the request was not sent. */
  charged: Amounts;
}

export type AuditedModel = Pick<Talk, 'model' | 'price'>;

export function requestRow(
  { id, item }: Lineage,
  { model, price }: AuditedModel,
  { outcome, reply, charged }: RequestFacts,
): Omit<AuditRow, 'time'> {
  const { tokens = 0n, input_tokens = 0n, output_tokens = 0n, spend = 0n } = charged;
  const cached = reply ? reply.usage.cache_read_tokens + reply.usage.cache_write_tokens : 0;
  const parts = `input ${input_tokens}, output ${output_tokens}, cached ${cached}`;
  const figures = `${tokens} tokens (${parts}), ${formatMoney(spend)} ${price.currency}`;
  const code = outcome.ok ? '' : outcome.error.code;
  const end = outcome.ok ? (reply ? `, ended by ${reply.stop}` : ', not used') : '';
  const broken = reply?.broken ? ', broke off' : '';
  return {
    surface: 'harness',
    caller: id,
    subject: `directive:${item.id}`,
    operation: `model:${model.provider}/${model.model}`,
    target: '',
    decision: outcome.ok ? 'allowed' : code === 'permission_denied' ? 'denied' : 'failed',
    reason: `${code && `${code}; `}${figures}${end}${broken}`,
  };
}
