// Which texts are secrets to a run: keys in the environment, what tools declare to need from it, inputs
// that are named like secrets, results that are labelled as such. Whatever is written down or shown of
// a thread goes through its redactor first.
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
/** Declared by tools and known to everybody: hiding them would hide half of every text. */
const NO_SECRET = /^(PATH|HOME|USER|LOGNAME|LANG|LC_.*|TERM|TMPDIR|PWD|SHELL|TZ)$|_BASE_URL$/;
/** Shorter inputs are words of the language. */
const MIN_INPUT = 8;
const KEPT = 50;

/** The values of the environment that nobody may read in a record. */
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

/** What a result says about itself: which tools, which place. */
const ABOUT: ReadonlySet<string> = new Set(['chain', 'path', 'file', 'url', 'type', 'encoding']);

function* textsIn(value: Json): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* textsIn(item);
  else if (isObject(value)) {
    for (const [name, item] of Object.entries(value)) if (!ABOUT.has(name)) yield* textsIn(item);
  }
}

/** Inputs whose name says that they are secret, at any depth. */
export function inputSecrets(inputs: Json): string[] {
  if (Array.isArray(inputs)) return inputs.flatMap(inputSecrets);
  if (!isObject(inputs)) return [];
  return Object.entries(inputs).flatMap(([name, value]) =>
    NAMED_SECRET.test(name)
      ? [...textsIn(value)].filter((text) => text.length >= MIN_INPUT)
      : inputSecrets(value),
  );
}

/** What an event makes known as secret: the content of anything labelled `secret`. */
export function eventSecrets(type: string, data: JsonObject): string[] {
  if (type === 'thread_start') return inputSecrets(data.inputs ?? {});
  const labels = getOwn(data.marks, 'labels');
  if (data.is_error === true || !Array.isArray(labels) || !labels.includes('secret')) return [];
  const shown: Json = [data.content ?? null, data.text ?? null];
  return [...textsIn(shown)].filter((text) => text.length >= MIN_INPUT);
}

export type KnownSecrets = ReturnType<typeof createKnownSecrets>;

interface SecretSet {
  secrets: ReadonlySet<string>;
  redactor: Redactor;
}

/** `environment` is asked anew for every thread: tools come and go. */
export function createKnownSecrets(environment: () => readonly string[]) {
  const own = new Map<string, SecretSet>();
  /** What most threads know and no more; the same for all of them. */
  let common: SecretSet | undefined;
  const ended = new Set<string>();
  /** What a redactor has found nothing in: the registry and the transcript ask about the same event. */
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
  /** Who only asks leaves nothing behind: a thread is remembered from what it learns on. */
  const knownTo = (thread: string): SecretSet => own.get(thread) ?? common ?? of('');
  function learn(thread: string, news: Iterable<string>): void {
    const known = of(thread);
    const unknown = [...news].filter((secret) => !known.secrets.has(secret));
    if (unknown.length === 0) return;
    const secrets = new Set([...known.secrets, ...unknown]);
    own.set(thread, { secrets, redactor: createRedactor(secrets) });
  }
  return {
    redactor: (thread: string): Redactor => knownTo(thread).redactor,
    /** Of a thread below this one that is about to get these inputs. */
    redactorBelow(parent: string, inputs: Json): Redactor {
      const { secrets, redactor } = knownTo(parent);
      const more = inputSecrets(inputs);
      return more.length === 0 ? redactor : createRedactor(new Set([...secrets, ...more]));
    },
    /** Does it surely hold nothing that is secret to the thread? `text`: the value as JSON. */
    isClean(thread: string, value: Json, text = '\\'): boolean {
      const { redactor } = knownTo(thread);
      if (redactor.isIdle) return true;
      if (!isObject(value)) return redactor.isClean(value);
      if (clean.get(value) === redactor) return true;
      // One pass over the text, unless something in it is written otherwise than it is.
      const isClean = redactor.isClean(text.includes('\\') ? value : text);
      if (isClean) clean.set(value, redactor);
      return isClean;
    },
    learn,
    /** What is secret to a parent is secret to its child. */
    inherit: (thread: string, parent: string): void =>
      learn(thread, own.get(parent)?.secrets ?? []),
    /** The thread is no longer run here. Its end may still be told, so the last few are kept. */
    forget(thread: string): void {
      ended.delete(thread);
      ended.add(thread);
      const [oldest] = ended;
      if (ended.size <= KEPT || oldest === undefined) return;
      ended.delete(oldest);
      own.delete(oldest);
    },
  };
}
