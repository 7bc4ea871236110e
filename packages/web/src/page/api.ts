// Requests of the page. The browser sends the cookie; the page must send the key, and only a page
// of this origin has it.
import { signal } from '@preact/signals';

const KEY = 'kernmantle-key';

export interface PageFault {
  readonly code: string;
  readonly detail: { readonly message: string; readonly [name: string]: unknown };
}
export type PageAnswer<T> =
  | { readonly ok: true; readonly output: T }
  | { readonly ok: false; readonly error: PageFault };

/** True if the server no longer accepts this session. Old data stays visible without updates. */
export const isOver = signal(false);

const fault = (code: string, message: string): PageAnswer<never> => ({
  ok: false,
  error: { code, detail: { message } },
});

export const readKey = (): string => localStorage.getItem(KEY) ?? '';
export function keepKey(key: string): void {
  if (key === '') localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, key);
}

export const headersOf = (): Record<string, string> => ({ 'x-kernmantle-key': readKey() });

async function ask<T>(path: string, init: RequestInit): Promise<PageAnswer<T>> {
  try {
    const response = await fetch(`/api/${path}`, init);
    if (response.status === 401 && path !== 'session') isOver.value = true;
    const body: unknown = await response.json();
    if (typeof body === 'object' && body !== null && 'ok' in body) return body as PageAnswer<T>;
    return fault('server', `the server answered ${response.status} without valid data`);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') {
      return fault('aborted', 'the request was cancelled');
    }
    return fault('unreachable', 'the server sent no valid answer');
  }
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<PageAnswer<T>> =>
  ask(path, { headers: headersOf(), ...(signal ? { signal } : {}) });

/** Every action has its own key, so a retry is the same action. */
export const post = <T>(path: string, body: unknown, key: string = crypto.randomUUID()) =>
  ask<T>(path, {
    method: 'POST',
    headers: { ...headersOf(), 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify(body),
  });

/** Sends a file to the server, which keeps it for the next start or resume. */
const upload = (file: File) =>
  ask<{ readonly upload: string }>(`uploads?name=${encodeURIComponent(file.name)}`, {
    method: 'POST',
    headers: { ...headersOf(), 'content-type': 'application/octet-stream' },
    body: file,
  });

interface SentFile {
  readonly upload: string;
  readonly paste?: boolean;
}

/** Type of a file that holds text which a person pasted. */
export const PASTE = 'text/x-paste';

/** Sends files one after the other. Returns the part of a request that names them, or the first error. */
export async function uploadAll(
  files: readonly File[],
): Promise<PageAnswer<{ readonly attach?: readonly SentFile[] }>> {
  const attach: SentFile[] = [];
  for (const file of files) {
    const sent = await upload(file);
    if (!sent.ok) return sent;
    attach.push({ upload: sent.output.upload, ...(file.type === PASTE && { paste: true }) });
  }
  return { ok: true, output: attach.length > 0 ? { attach } : {} };
}
