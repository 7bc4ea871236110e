// What the host works out for the further globals of js blocks: text in, text out, nothing kept.

const URL_PARTS = [
  'href',
  'protocol',
  'username',
  'password',
  'host',
  'hostname',
  'port',
  'pathname',
  'search',
  'hash',
] as const;

/** `[address]`, `[address, base]` or `[address, null, part, value]`; empty when it is no address. */
function url(text: string): string {
  const [address, base, part, value] = JSON.parse(text) as (string | null | undefined)[];
  if (!URL.canParse(address ?? '', base ?? undefined)) return '';
  const made = new URL(address ?? '', base ?? undefined);
  const key = URL_PARTS.find((name) => name === part);
  if (key === 'href' && !URL.canParse(value ?? '')) return '';
  if (key) made[key] = value ?? '';
  const parts = URL_PARTS.map((name) => [name, made[name]] as const);
  return JSON.stringify({ ...Object.fromEntries(parts), origin: made.origin });
}

/** Name of the encoding, flags, and bytes as characters, on a line each. */
function decode(text: string): string {
  const [name = '', flags = ''] = text.split('\n', 2);
  const bytes = Buffer.from(text.slice(name.length + flags.length + 2), 'latin1');
  try {
    const options = { fatal: flags.includes('f'), ignoreBOM: flags.includes('b') };
    return `v${new TextDecoder(name, options).decode(bytes)}`;
  } catch {
    return `eThe bytes or the encoding \`${name}\` are not valid`;
  }
}

export const ANSWERS: Readonly<Record<string, (text: string) => string>> = {
  url,
  decode,
  utf8: (text) => Buffer.from(text, 'utf8').toString('latin1'),
};
