// Asks an OpenAI-compatible server for its models and their windows. Four servers tell the window of a loaded model,
// each in its own way. An answer is untrusted: only ids and whole numbers are read from it.
import {
  type Clock,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  messageOf,
  numberAt,
  type Outcome,
  ok,
  parseJson,
  textAt,
} from '../base/index.ts';
import { openLocalFetch } from '../kernel/index.ts';

export interface ServerModel {
  readonly id: string;
  /** Absent: the server does not tell it. */
  readonly window?: number;
}

export interface ServerModels {
  readonly kind: 'vllm' | 'llamacpp' | 'lmstudio' | 'ollama' | 'server';
  /** Address without the version at its end. */
  readonly root: string;
  /** True if every address of the host is loopback or private. */
  readonly isLocal: boolean;
  readonly models: readonly ServerModel[];
}

const MAX_BYTES = 4 * 1024 * 1024;
const ANSWER_MS = 10_000;
/** Window of an Ollama model that is not loaded, because Ollama truncates a longer prompt silently. */
const OLLAMA_WINDOW = 4096;
/** Ids are keys of the user's files and part of requests, so they have no spaces and no control characters. */
const MODEL_ID = /^[\w@./:+-]{1,200}$/;

type LocalFetch = Awaited<ReturnType<typeof openLocalFetch>>;
type ReadPath = (path: string, body?: JsonObject) => Promise<Outcome<Json>>;

const windowAt = (value: Json | undefined, key: string): number | undefined => {
  const window = numberAt(value, key);
  return window !== undefined && Number.isInteger(window) && window > 0 && window < 1e9
    ? window
    : undefined;
};

/** Returns the JSON of an answer. A redirect is not followed: the user names the address that gets the key. */
function reader(
  { fetch }: LocalFetch,
  root: string,
  key: string | undefined,
  signal: AbortSignal,
): ReadPath {
  return async (path, body) => {
    const refuse = (code: string, problem: string, more: JsonObject = {}) =>
      fail(code, `\`${root}${path}\` ${problem}`, more);
    try {
      const answer = await fetch(`${root}${path}`, {
        signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
        headers: {
          accept: 'application/json',
          ...(key !== undefined && { authorization: `Bearer ${key}` }),
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
      });
      const { status } = answer;
      if (status === 401 || status === 403) {
        const hint = 'name the environment variable with the key of this server';
        return refuse('provider_error', `answered ${status}: it needs a valid key`, {
          hint,
          status,
        });
      }
      if (status >= 300 && status < 400) {
        return refuse('http_error', 'redirects to another address; use that address', { status });
      }
      if (status !== 200) {
        const hint =
          'use the address of an OpenAI-compatible server, such as `http://127.0.0.1:11434/v1`';
        return refuse('http_error', `answered ${status}`, { hint, status });
      }
      const parsed = parseJson(await answer.text());
      return parsed.ok ? parsed : refuse('http_error', 'answered with something that is not JSON');
    } catch (error) {
      if (signal.aborted) return fail('cancelled', 'the request was cancelled');
      return refuse('network_error', `did not answer: ${messageOf(error)}`);
    }
  };
}

interface Windows {
  readonly kind: ServerModels['kind'];
  windowOf(id: string): Promise<number | undefined> | number | undefined;
  /** Ids that are no chat models. */
  readonly others?: ReadonlySet<string>;
}

const byId = (list: readonly Json[], key: string, field: string): Map<string, number | undefined> =>
  new Map(list.map((one) => [textAt(one, key), windowAt(one, field)]));

async function ollamaWindow(
  read: ReadPath,
  id: string,
  loaded: number | undefined,
): Promise<number> {
  const details = await read('/api/show', { model: id });
  const facts = getOwn(details.ok ? details.output : null, 'model_info');
  const name = Object.keys(isObject(facts) ? facts : {}).find((key) =>
    key.endsWith('.context_length'),
  );
  const most = windowAt(facts, name ?? '') ?? Number.POSITIVE_INFINITY;
  return Math.min(most, loaded ?? OLLAMA_WINDOW);
}

/** Finds out which server it is by the endpoint that it answers. */
async function findWindows(read: ReadPath, listed: readonly Json[]): Promise<Windows> {
  const vllm = byId(listed, 'id', 'max_model_len');
  if ([...vllm.values()].some((window) => window !== undefined)) {
    return { kind: 'vllm', windowOf: (id) => vllm.get(id) };
  }
  const valueAt = async (path: string): Promise<Json> => {
    const answer = await read(path);
    return answer.ok ? answer.output : null;
  };
  const props = await valueAt('/props');
  const slot =
    windowAt(getOwn(props, 'default_generation_settings'), 'n_ctx') ?? windowAt(props, 'n_ctx');
  if (slot !== undefined) return { kind: 'llamacpp', windowOf: () => slot };
  const studio = listAt(await valueAt('/api/v0/models'), 'data');
  if (studio.length > 0) {
    const loaded = byId(studio, 'id', 'loaded_context_length');
    const embedding = studio.filter((one) => textAt(one, 'type') === 'embeddings');
    const others = new Set(embedding.map((one) => textAt(one, 'id')));
    return { kind: 'lmstudio', windowOf: (id) => loaded.get(id), others };
  }
  const running = await valueAt('/api/ps');
  if (!Array.isArray(getOwn(running, 'models')))
    return { kind: 'server', windowOf: () => undefined };
  const loaded = byId(listAt(running, 'models'), 'name', 'context_length');
  return { kind: 'ollama', windowOf: (id) => ollamaWindow(read, id, loaded.get(id)) };
}

/** Returns the models of the list. With `model` it is the only one. Fails if there are too many to choose from. */
function chosen(
  listed: readonly Json[],
  others: ReadonlySet<string>,
  model?: string,
): Outcome<string[]> {
  const ids = listed.map((one) => textAt(one, 'id')).filter((id) => !others.has(id));
  const usable = [...new Set(ids)].filter((id) => MODEL_ID.test(id));
  const names = `${usable.slice(0, 20).join(', ')}${usable.length > 20 ? ', …' : ''}`;
  if (usable.length === 0) return fail('not_found', 'the server lists no model');
  if (model === undefined && usable.length > MAX_MODELS) {
    return fail('usage', `the server lists ${usable.length} models; choose one as \`model\``, {
      hint: names,
    });
  }
  if (model === undefined) return ok(usable);
  return usable.includes(model)
    ? ok([model])
    : fail('not_found', `the server does not list model \`${model}\``, {
        hint: `it lists ${names}`,
      });
}
const MAX_MODELS = 50;

/** Address as the user wrote it, without the version at its end. */
function rootOf(text: string): Outcome<URL> {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === '') {
    return fail('usage', `\`${text}\` must be an address that begins with http or https`);
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    return fail('usage', 'the address must have no password, query or fragment');
  }
  url.pathname = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return ok(url);
}

export interface ServerQuestion {
  readonly url: string;
  readonly key?: string;
  readonly model?: string;
}

/** Reads the models of a server. Reaches only this host, at this port. */
export async function readServerModels(
  { url, key, model }: ServerQuestion,
  { clock, onProgress }: { clock: Clock; onProgress(text: string): void },
  signal: AbortSignal,
): Promise<Outcome<ServerModels>> {
  const target = rootOf(url);
  if (!target.ok) return target;
  const root = target.output.href.replace(/\/$/, '');
  const client = await openLocalFetch({ clock, maxBytes: MAX_BYTES });
  try {
    const read = reader(client, root, key, signal);
    onProgress(`asking ${root}/v1/models`);
    const list = await read('/v1/models');
    if (!list.ok) return list;
    const listed = listAt(list.output, 'data');
    const { kind, windowOf, others = new Set() } = await findWindows(read, listed);
    const ids = chosen(listed, others, model);
    if (!ids.ok) return ids;
    onProgress(`${kind === 'server' ? 'a server' : kind} with ${ids.output.length} models`);
    const models: ServerModel[] = [];
    for (const id of ids.output) {
      const window = await windowOf(id);
      models.push({ id, ...(window !== undefined && { window }) });
    }
    if (signal.aborted) return fail('cancelled', 'the request was cancelled');
    return ok({ kind, root, isLocal: client.isLocal(), models });
  } finally {
    client.close();
  }
}
