// Combines the extensions of one runtime. Extensions that contradict one another are refused with
// `config_invalid` before anything is opened.
import { fail, type Outcome, ok } from '../base/index.ts';
import { EMPTY } from '../flow/index.ts';
import type { ModelPort, ScriptPort } from '../harness/index.ts';
import type { Kind, Primitive } from '../kernel/index.ts';
import type { Store } from '../store/index.ts';
import type { Extension, StoreDriver } from './extension.ts';
import type { RuntimeContext } from './open-project.ts';

interface RegisteredExtensions {
  readonly primitives: readonly Primitive[];
  readonly kinds: readonly Kind[];
  /** Store drivers by URL scheme, in registration order. */
  readonly drivers: ReadonlyMap<string, StoreDriver>;
  /** Returns the same port for every call. */
  script(): ScriptPort;
  /** Applies the wrappers of all extensions in registration order. */
  model(store: Store, model: ModelPort): ModelPort;
  close(): Promise<void>;
}

const SCHEME = /^[a-z][a-z0-9+.-]*:$/;

/** Records the provider of each part. A second provider of the same part fails with `config_invalid`. */
function createClaims() {
  const owners = new Map<string, string>();
  return (owner: string, what: string): Outcome<null> => {
    const other = owners.get(what);
    if (other === undefined) {
      owners.set(what, owner);
      return ok(null);
    }
    const message = `${what} is provided by \`${other}\` and by \`${owner}\`; remove one of them`;
    return fail('config_invalid', message);
  };
}

type Claim = ReturnType<typeof createClaims>;

/** Claims all parts of one extension. Registration stops at the first conflict. */
function claimAll(
  extension: Extension,
  primitives: readonly Primitive[],
  kinds: readonly Kind[],
  claim: Claim,
): Outcome<null> {
  const { name, stores = {} } = extension;
  if (name === '') return fail('config_invalid', 'an extension has no name; give it one');
  const wrong = Object.keys(stores).find((scheme) => !SCHEME.test(scheme));
  if (wrong !== undefined) {
    const message = `the extension \`${name}\` has a driver for \`${wrong}\`, which is not a URL scheme; write it as in \`postgres:\``;
    return fail('config_invalid', message);
  }
  const provided = [
    `the extension \`${name}\``,
    ...primitives.map((primitive) => `the primitive \`${primitive.name}\``),
    ...kinds.map((kind) => `the kind \`${kind.name}\``),
    ...Object.keys(stores).map((scheme) => `the driver for \`${scheme}\``),
    ...(extension.script ? ['the script port'] : []),
  ];
  const failed = provided.map((what) => claim(name, what)).find((one) => !one.ok);
  return failed ?? ok(null);
}

/** Replaces the script port if no extension provides one. */
function withoutScripts(): ScriptPort {
  const message = 'this runtime has no extension that runs scripts';
  return Object.assign(
    async () => ({ text: '', marks: EMPTY, fault: fail('script_unavailable', message).error }),
    {
      readPlan: async () => ({ problems: [{ line: 1, message }], steps: [], returns: [] }),
    },
  );
}

/** Registers all extensions. `own`: primitives and kinds of core. Fails with `config_invalid`. */
export function registerExtensions(
  extensions: readonly Extension[],
  rooms: () => RuntimeContext,
  own: { readonly primitives: Iterable<string>; readonly kinds: readonly string[] },
): Outcome<RegisteredExtensions> {
  const claim = createClaims();
  for (const name of own.primitives) claim('core', `the primitive \`${name}\``);
  for (const name of own.kinds) claim('core', `the kind \`${name}\``);
  const [primitives, kinds]: [Primitive[], Kind[]] = [[], []];
  for (const extension of extensions) {
    const [added, more] = [extension.primitives?.(rooms) ?? [], extension.kinds?.(rooms) ?? []];
    const claimed = claimAll(extension, added, more, claim);
    if (!claimed.ok) return claimed;
    primitives.push(...added);
    kinds.push(...more);
  }
  let script: ScriptPort | undefined;
  return ok({
    primitives,
    kinds,
    drivers: new Map(extensions.flatMap(({ stores = {} }) => Object.entries(stores))),
    script() {
      const provider = extensions.find((extension) => extension.script);
      script ??= provider?.script?.(rooms()) ?? withoutScripts();
      return script;
    },
    model: (store, model) =>
      extensions.reduce(
        (port, extension) => extension.model?.(rooms(), store, port) ?? port,
        model,
      ),
    async close() {
      for (const extension of extensions) await extension.close?.(rooms());
    },
  });
}
