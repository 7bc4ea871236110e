// Translates the config of a connector, with its variables expanded, into a server endpoint.
import {
  compact,
  createRedactor,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  textAt,
  textsAt,
} from '@kernmantle/core/base';
import type { Endpoint, HttpEndpoint } from '../client/pool.ts';

type OAuth = NonNullable<HttpEndpoint['oauth']>;

export interface ServerPlace {
  readonly endpoint: Endpoint;
  /** The part of the endpoint that belongs to a pin. It contains no secret. */
  readonly identity: JsonObject;
}

const invalid = (field: string, message: string): Outcome<never> =>
  fail('config_invalid', message, { config_path: `config.${field}` });

const HEADER = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;

function headersOf(config: JsonObject): Outcome<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(isObject(config.headers) ? config.headers : {})) {
    if (!HEADER.test(name) || typeof value !== 'string' || /[\r\n\0]/.test(value)) {
      return invalid('headers', `\`${name}\` is not a valid header`);
    }
    headers[name.toLowerCase()] = value;
  }
  return ok(headers);
}

type Credentials = { header: [string, string] } | { query: [string, string] };

/** Credentials for each `auth.type`, as in `http_client`. A text is the problem of the config. */
const AUTH: Readonly<Record<string, (auth: Json) => Credentials | string>> = {
  bearer: (auth) => {
    const token = textAt(auth, 'token');
    return token ? { header: ['authorization', `Bearer ${token}`] } : 'bearer auth needs a `token`';
  },
  api_key: (auth) => {
    const [key, query] = [textAt(auth, 'key'), textAt(auth, 'query')];
    if (!key) return 'api_key auth needs a `key`';
    return query
      ? { query: [query, key] }
      : { header: [(textAt(auth, 'header') || 'x-api-key').toLowerCase(), key] };
  },
  basic: (auth) => {
    const user = textAt(auth, 'username') || textAt(auth, 'user');
    if (user.includes(':')) return 'a user name for basic auth must not contain `:`';
    const pair = Buffer.from(`${user}:${textAt(auth, 'password')}`).toString('base64');
    return { header: ['authorization', `Basic ${pair}`] };
  },
};

function httpEndpoint(config: JsonObject, server: string): Outcome<ServerPlace> {
  const url = URL.parse(textAt(config, 'mcp_url'));
  if (!url || !/^https?:$/.test(url.protocol)) {
    return invalid('mcp_url', 'the address of an MCP server must begin with http or https');
  }
  if (url.username || url.password) {
    return invalid('mcp_url', 'a URL must not contain a user name or password; use `auth`');
  }
  const identity = { kind: 'http', url: `${url.origin}${url.pathname}` };
  const read = headersOf(config);
  if (!read.ok) return read;
  const headers = read.output;
  const auth = getOwn(config, 'auth') ?? { type: 'none' };
  const type = textAt(auth, 'type');
  if (type === 'oauth') {
    const field = (name: string): string | undefined => textAt(auth, name) || undefined;
    const [scope, client_id, client_secret] = ['scope', 'client_id', 'client_secret'].map(field);
    const oauth = compact<OAuth>({ name: server, scope, client_id, client_secret });
    return ok({ endpoint: { kind: 'http', url: url.href, headers, oauth }, identity });
  }
  const result = type === 'none' ? undefined : (AUTH[type]?.(auth) ?? 'unsupported `auth.type`');
  if (typeof result === 'string') return invalid('auth', result);
  if (result && 'header' in result) headers[result.header[0]] = result.header[1];
  if (result && 'query' in result) url.searchParams.set(...result.query);
  return ok({ endpoint: { kind: 'http', url: url.href, headers }, identity });
}

function stdioEndpoint(config: JsonObject): Outcome<ServerPlace> {
  const command = textAt(config, 'command');
  const args = textsAt(config, 'args');
  if (/\0/.test([command, ...args].join('')))
    return invalid('command', 'a command must not contain NUL');
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(isObject(config.env) ? config.env : {})) {
    if (typeof value !== 'string') return invalid('env', `\`env.${name}\` must be text`);
    env[name] = value;
  }
  const isDirect = config.direct !== undefined && config.grants === undefined;
  const grants = isDirect ? { read: ['**'] } : config.grants;
  return ok({
    endpoint: {
      kind: 'stdio',
      command,
      args,
      env,
      ...(isDirect && { isDirect }),
      grants: {
        read: textsAt(grants, 'read'),
        write: textsAt(grants, 'write'),
        network: getOwn(grants, 'network') === true,
      },
    },
    identity: { kind: 'stdio', command, args },
  });
}

export function readConnection(
  config: JsonObject,
  server: string,
  secrets: readonly string[],
): Outcome<ServerPlace> {
  const isHttp = textAt(config, 'mcp_url') !== '';
  if (isHttp === (textAt(config, 'command') !== '')) {
    const message = isHttp
      ? 'a server needs `command` or `mcp_url`, not both'
      : 'no server is configured; run the connector of a server';
    return invalid(isHttp ? 'mcp_url' : 'command', message);
  }
  const result = isHttp ? httpEndpoint(config, server) : stdioEndpoint(config);
  if (!result.ok) return result;
  const { endpoint, identity } = result.output;
  return ok({ endpoint, identity: createRedactor(secrets).json(identity) });
}
