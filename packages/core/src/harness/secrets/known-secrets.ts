// Collects the secrets of a run: keys in the environment, variables that tools declare, inputs with names of secrets,
// and results with the label `secret`. Every text of a thread passes its redactor before it is written or shown.
import {
  createRedactor,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Redactor,
} from '../../base/index.ts';
import type { Library } from '../../items/index.ts';

type Env = Readonly<Record<string, string | undefined>>;

export const NAMED_SECRET =
  /(^|_)(api_?keys?|access_?keys?|private_?keys?|secret_?keys?|tokens?|secrets?|passwords?|passwd|passphrases?|credentials?)$/i;
/** Variables that tools declare and that are not secret. If they were hidden, half of every text would be. */
const NO_SECRET = /^(PATH|HOME|USER|LOGNAME|LANG|LC_.*|TERM|TMPDIR|PWD|SHELL|TZ)$|_BASE_URL$/;
/** Shortest input that counts as a secret. Shorter ones occur in ordinary text. */
const MIN_INPUT = 8;
const MAX_ENDED = 50;

/** Returns the values of environment variables that are secret. */
export function environmentSecrets(env: Env, library: Pick<Library, 'all' | 'config'>): string[] {
  const names = new Set(Object.keys(env).filter((name) => NAMED_SECRET.test(name)));
  for (const item of library.all('tool')) {
    // Most tools declare nothing, and reading a whole tool costs more than looking for the word.
    if (item.kind !== 'tool' || !item.body.includes('env')) continue;
    for (const name of item.tool?.env ?? []) if (!NO_SECRET.test(name)) names.add(name);
  }
  const providers = getOwn(library.config('models').value, 'providers');
  for (const provider of isObject(providers) ? Object.values(providers) : []) {
    const name = getOwn(provider, 'key');
    if (typeof name === 'string') names.add(name);
  }
  const values = [...names].map((name) => env[name] ?? '').filter((value) => value !== '');
  return [...new Set(values)].toSorted();
}

/** Fields that describe a result. They contain no secret. */
const ABOUT: ReadonlySet<string> = new Set(['chain', 'path', 'file', 'url', 'type', 'encoding']);

function* textsIn(value: Json): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* textsIn(item);
  else if (isObject(value)) {
    for (const [name, item] of Object.entries(value)) if (!ABOUT.has(name)) yield* textsIn(item);
  }
}

/** Returns the texts of inputs whose names mark a secret, at any depth. */
export function inputSecrets(inputs: Json): string[] {
  if (Array.isArray(inputs)) return inputs.flatMap(inputSecrets);
  if (!isObject(inputs)) return [];
  return Object.entries(inputs).flatMap(([name, value]) =>
    NAMED_SECRET.test(name)
      ? [...textsIn(value)].filter((text) => text.length >= MIN_INPUT)
      : inputSecrets(value),
  );
}

/** Returns the texts that an event marks as secret: secret inputs, and content with the label `secret`. */
export function eventSecrets(type: string, data: JsonObject): string[] {
  if (type === 'thread_start') return inputSecrets(data.inputs ?? {});
  const labels = getOwn(data.marks, 'labels');
  if (data.is_error === true || !Array.isArray(labels) || !labels.includes('secret')) return [];
  const texts: Json = [data.content ?? null, data.text ?? null];
  return [...textsIn(texts)].filter((text) => text.length >= MIN_INPUT);
}

export type KnownSecrets = ReturnType<typeof createKnownSecrets>;

interface SecretSet {
  secrets: ReadonlySet<string>;
  redactor: Redactor;
}

/** Creates the collection. `environment` is called again for every thread, because tools can change. */
export function createKnownSecrets(environment: () => readonly string[]) {
  const own = new Map<string, SecretSet>();
  /** The set of all threads that have only the secrets of the environment. */
  let common: SecretSet | undefined;
  const ended = new Set<string>();
  /** Values without a secret, by redactor. The store and the transcript check the same events. */
  const clean = new WeakMap<object, Redactor>();

  function of(thread: string): SecretSet {
    const before = own.get(thread);
    if (before) return before;
    ended.delete(thread);
    const secrets = new Set(environment());
    const redactor = createRedactor(secrets);
    // A redactor is the same for the same secrets.
    if (common?.redactor !== redactor) common = { secrets, redactor };
    own.set(thread, common);
    return common;
  }
  /** Returns the secrets of a thread. A thread gets an entry of its own only when it learns a secret. */
  const secretsOf = (thread: string): SecretSet => own.get(thread) ?? common ?? of('');
  function learn(thread: string, news: Iterable<string>): void {
    const current = of(thread);
    const added = [...news].filter((secret) => !current.secrets.has(secret));
    if (added.length === 0) return;
    const secrets = new Set([...current.secrets, ...added]);
    own.set(thread, { secrets, redactor: createRedactor(secrets) });
  }
  return {
    redactor: (thread: string): Redactor => secretsOf(thread).redactor,
    /** Returns the redactor of a child that gets these inputs. */
    redactorBelow(parent: string, inputs: Json): Redactor {
      const { secrets, redactor } = secretsOf(parent);
      const more = inputSecrets(inputs);
      return more.length === 0 ? redactor : createRedactor(new Set([...secrets, ...more]));
    },
    /** True if the value surely contains no secret of the thread. `text`: the value as JSON. */
    isClean(thread: string, value: Json, text = '\\'): boolean {
      const { redactor } = secretsOf(thread);
      if (redactor.isIdle) return true;
      if (!isObject(value)) return redactor.isClean(value);
      if (clean.get(value) === redactor) return true;
      // One pass over the text is enough, unless it contains an escape.
      const isClean = redactor.isClean(text.includes('\\') ? value : text);
      if (isClean) clean.set(value, redactor);
      return isClean;
    },
    learn,
    /** Adds the secrets of a parent to its child. */
    inherit: (thread: string, parent: string): void =>
      learn(thread, own.get(parent)?.secrets ?? []),
    /** Called when the thread no longer runs here. The last few are kept, because their ends can still be shown. */
    forget(thread: string): void {
      ended.delete(thread);
      ended.add(thread);
      const [oldest] = ended;
      if (ended.size <= MAX_ENDED || oldest === undefined) return;
      ended.delete(oldest);
      own.delete(oldest);
    },
  };
}
