// Converts an account to the JSON that a store keeps, and back. Amounts are decimal texts, so that no digit
// is lost in JSON.
import { compact } from '../base/index.ts';
import { type AmountsText, amountsText, positive, readAmounts } from './amounts.ts';
import type { Account } from './decide.ts';
import type { BudgetState, OpenReservation } from './port.ts';

interface AccountText extends Record<'limits' | 'used' | 'reserved', AmountsText> {
  open: readonly { key: string; amounts: AmountsText; from?: string | null; standing?: unknown }[];
}

export function readAccount(thread: string, text: string): Account {
  const { limits, used, reserved, open }: AccountText = JSON.parse(text);
  return {
    thread,
    limits: readAmounts(limits),
    used: readAmounts(used),
    reserved: readAmounts(reserved),
    open: open.map(({ key, amounts, from, standing }) => ({
      key,
      amounts: readAmounts(amounts),
      ...(typeof from === 'string' && { from }),
      ...(standing ? { standing: true } : {}),
    })),
  };
}

export function writeAccount({ limits, used, reserved, open }: Account): string {
  let list = '';
  for (const { key, amounts, from, standing } of open) {
    const more = from === undefined ? '' : `,"from":${JSON.stringify(from)}`;
    list += `${list && ','}{"key":${JSON.stringify(key)},"amounts":${amountsText(amounts)}${more}${standing ? ',"standing":1' : ''}}`;
  }
  const [most, spent, pending] = [amountsText(limits), amountsText(used), amountsText(reserved)];
  return `{"limits":${most},"used":${spent},"reserved":${pending},"open":[${list}]}`;
}

const ZERO = { spawns: 0n, tokens: 0n, input_tokens: 0n, output_tokens: 0n, spend: 0n };

export function toBudgetState(thread: string, text: string): BudgetState {
  const { limits, used, reserved } = readAccount(thread, text);
  return { thread, limits, used: { ...ZERO, ...used }, reserved: { ...ZERO, ...reserved } };
}

/** Returns the open reservations of a thread, ordered by key. */
export const openReservations = ({ open }: Account): OpenReservation[] =>
  open
    .map(({ key, amounts, from }) =>
      compact<OpenReservation>({ key, amounts: positive(amounts), from }),
    )
    .sort((a, b) => (a.key < b.key ? -1 : 1));
