// Actor and role of this page. Hidden buttons are no security measure: the server checks every
// request.
import { signal } from '@preact/signals';
import type { Me, WebRole } from '../../model/api.ts';
import { get, isOver, keepKey, type PageAnswer, post, readKey } from '../api.ts';

/** Actor of this page. Undefined until the server has answered. */
export const me = signal<Me | undefined>(undefined);

const RANK: Readonly<Record<WebRole, number>> = { view: 0, steer: 1, approve: 2 };

/** True if the actor has this role or a higher one. */
export const may = (role: WebRole): boolean =>
  me.value !== undefined && RANK[me.value.role] >= RANK[role];

/** Reads the actor of this session. A refusal means that no session exists. */
export async function loadMe(): Promise<PageAnswer<Me>> {
  const answer = await get<Me>('me');
  if (answer.ok) {
    me.value = answer.output;
    isOver.value = false;
  }
  return answer;
}

/** Exchanges a token for a session. The answer sets the cookie, and the page stores the key. */
export async function openSession(token: string): Promise<PageAnswer<Me>> {
  const answer = await post<Me & { key: string }>('session', { token });
  if (!answer.ok) return answer;
  keepKey(answer.output.key);
  me.value = answer.output;
  isOver.value = false;
  return answer;
}

/**
 * Takes the token from the fragment of a link, and removes it from the address, the history and the
 * screen. Absent without one.
 */
export function takeLinkToken(): string | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get('t');
  if (token === null) return undefined;
  history.replaceState(null, '', location.pathname + location.search);
  return token;
}

export const hasKey = (): boolean => readKey() !== '';
