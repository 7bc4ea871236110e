// Security headers of all answers, and the session cookie.

/** Default headers of every answer. A route can override them. */
const HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/**
 * Policy of the page: only its own files; no inline script, style or image, and no text that
 * becomes a script.
 */
export const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** Adds the headers that the answer does not set. */
export function addHeaders(headers: Headers): void {
  for (const [name, value] of Object.entries(HEADERS)) {
    if (!headers.has(name)) headers.set(name, value);
  }
}

/** Cookies ignore ports, so the name contains the port. */
export function createCookie(port: () => number, isSecure: boolean) {
  const name = (): string => `${isSecure ? '__Host-' : ''}kernmantle_${port()}`;
  return {
    /** Returns all values of the cookie, because another server of this machine can set the same name. */
    read(headers: Headers): string[] {
      const start = `${name()}=`;
      const parts = (headers.get('cookie') ?? '').split(';', 50).map((part) => part.trim());
      const values = parts.filter((part) => part.startsWith(start));
      return values.slice(0, 5).map((part) => part.slice(start.length, start.length + 100));
    },
    write: (value: string, seconds: number): string =>
      `${name()}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${isSecure ? '; Secure' : ''}`,
  };
}
